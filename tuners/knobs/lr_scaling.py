"""How the learning rate follows a changed batch size."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from advisor.profiles.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.optim import Optimizer

EXPONENTS = {"none": 0.0, "linear": 1.0, "sqrt": 0.5}
SUMMED = "the loss is summed over the batch, so its gradient already grows with the batch"


class LrScaling(Knob[str]):
    """The factor on the learning rate when the batch is k times as large: none, k, or the root of k.

    `linear` is the rule for SGD, `sqrt` the one for Adam-type optimizers. It saves no time by itself; it
    keeps a larger batch learning at a comparable pace. The rate is scaled for the moment of each update
    and put back after it, so schedulers and programs that assign the rate every iteration keep working.

    Losses with ``reduction="sum"`` already grow with the batch: scaling linearly would apply the factor
    twice and is refused. Programs that update parameters by hand have no rate to scale.
    """

    semantics = Semantics.TRAINING
    live = True

    def __init__(self) -> None:
        self.factor = 1.0

    def values(self) -> list[str]:
        return list(EXPONENTS)

    def present(self, profile: Profile) -> str:
        if not profile.optimizers:
            raise Refused("parameters are updated without torch.optim, so there is no learning rate to scale")
        return "none"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        if profile.loader is None or profile.loader.batch_size is None:
            raise Refused("the batch size cannot be changed here, so there is nothing to compensate")
        summed = profile.run is not None and profile.run.sum_reduced_loss
        return [present, "sqrt"] if summed else [present, "linear", "sqrt"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if value == "linear" and profile.run is not None and profile.run.sum_reduced_loss:
            raise Refused(SUMMED)

    def prepare(self, config: Config, present: Config) -> None:
        """Compute the factor from the batch sizes of both configurations; 1 where either is unknown."""
        before = present.get("batch_size")
        after = config.get("batch_size", before)
        ratio = int(after) / int(before) if before and after else 1.0
        self.factor = ratio ** EXPONENTS[str(config["lr_scaling"])]

    def step(self, optimizer: "Optimizer", value: str) -> AbstractContextManager[None] | None:
        """Scale the learning rate of every group for one update.

        Raises:
            Refused: The optimizer's groups have no learning rate.
        """
        if any("lr" not in group for group in optimizer.param_groups):
            raise Refused(f"{type(optimizer).__name__} has no learning rate")
        return _scaled(optimizer, self.factor) if self.factor != 1.0 else None

    def change(self, value: str) -> Change:
        if value == "none":
            return Change("# the learning rate stays as it is")
        root = "" if value == "linear" else "**0.5"
        return Change(f"lr = lr * k{root}  # k = new batch size / old batch size")


@contextmanager
def _scaled(optimizer: "Optimizer", factor: float) -> Iterator[None]:
    import torch

    # a tensor is changed in place: captured and fused updates hold on to the object, groups may share it
    tensors = {id(g["lr"]): g["lr"] for g in optimizer.param_groups if isinstance(g["lr"], torch.Tensor)}
    kept = {key: rate.clone() for key, rate in tensors.items()}
    numbers = [(g, g["lr"]) for g in optimizer.param_groups if not isinstance(g["lr"], torch.Tensor)]
    for rate in tensors.values():
        rate.mul_(factor)
    for group, rate in numbers:
        group["lr"] = rate * factor
    try:
        yield
    finally:
        for key, rate in tensors.items():
            rate.copy_(kept[key])
        for group, rate in numbers:
            group["lr"] = rate
