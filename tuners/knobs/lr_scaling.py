"""How the learning rate follows a changed batch size."""

import math
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.optim import Optimizer

EXPONENTS = {"none": 0.0, "linear": 1.0, "sqrt": 0.5}
MEASURED = "noise_scale"
OF_SGD = ("SGD", "ASGD")
SUMMED = "the loss is summed over the batch, so its gradient already grows with the batch"


class LrScaling(Knob[str]):
    """The factor on the learning rate when the batch is k times as large: none, k, the root of k, or less.

    `linear` is the rule for SGD, `sqrt` the one for Adam-type optimizers. It saves no time by itself; it
    keeps a larger batch learning at a comparable pace. The rate is scaled for the moment of each update
    and put back after it, so schedulers and programs that assign the rate every iteration keep working.

    `noise_scale:PHI` scales SGD by k (PHI + B) / (PHI + k B), for a batch of B and a gradient noise scale
    PHI, both in samples: linear far below the noise scale, constant far above it (McCandlish et al. 2018,
    arXiv:1812.06162, eq. 2.5). A report by goodput states the noise scale, in samples of one update; with
    several batches to an update divide it by their number. It is tried only when it is named.

    A raised rate should be approached from the present one, over the first steps of the training (five of
    ninety epochs: Goyal et al. 2017, arXiv:1706.02677). The code to adopt does that; a trial, of a few
    steps, scales at once.

    Losses with ``reduction="sum"`` already grow with the batch: scaling linearly would apply the factor
    twice and is refused. Programs that update parameters by hand have no rate to scale.
    """

    semantics = Semantics.TRAINING
    live = True
    follows = "batch_size"
    written = ("lr",)

    def __init__(self) -> None:
        self.factor = 1.0

    def values(self) -> list[str]:
        return list(EXPONENTS)

    def parse(self, text: str) -> str:
        if not text.startswith(MEASURED):
            return super().parse(text)
        found = re.fullmatch(MEASURED + r":(\d{1,9}(\.\d{1,3})?)", text, re.ASCII)
        if found is None or float(found[1]) <= 0:
            raise ValueError(f"'{text}' names no noise scale: `{MEASURED}:400` for one of 400 samples")
        return text

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
        measured = value.startswith(MEASURED)
        if (measured or value == "linear") and profile.run is not None and profile.run.sum_reduced_loss:
            raise Refused(SUMMED)
        other = next((facts.name for facts in profile.optimizers if facts.name not in OF_SGD), None)
        if measured and other is not None:
            raise Refused(f"the rule of the noise scale is one for SGD, and the program updates by {other}")

    def prepare(self, config: Config, present: Config) -> None:
        """Compute the factor from the batch sizes of both configurations; 1 where either is unknown."""
        before = present.get("batch_size")
        after = config.get("batch_size", before)
        self.factor = _factor(str(config["lr_scaling"]), int(after), int(before)) if before and after else 1.0

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
        power = "" if value == "linear" else "**0.5"
        noise = _noise_scale(value)
        factor = f"k{power}" if noise is None else f"k * ({noise:g} + B) / ({noise:g} + k * B)"
        return Change(
            f"factor = {factor}  # k = new batch size / old batch size B\n"
            "lr = lr * factor\n"
            "# only above 1 it is approached evenly, over five of ninety epochs (Goyal et al. 2017):\n"
            + warm_up("max(factor, 1)")
        )


def warm_up(factor: str) -> str:
    """Code that approaches a rate from the present one, which was multiplied by at least 1."""
    return (
        "steps_up = max(1, 5 * steps // 90)  # steps are those of the whole training\n"
        f"warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / {factor}, total_iters=steps_up)\n"
        "warmup.step()  # after every optimizer.step()"
    )


def _factor(rule: str, batch: int, present: int) -> float:
    ratio, noise = batch / present, _noise_scale(rule)
    if noise is None:
        return math.pow(ratio, EXPONENTS[rule])
    return ratio * (noise + present) / (noise + batch)


def _noise_scale(rule: str) -> float | None:
    """The one that a rule names, if it is that rule."""
    return float(rule.partition(":")[2]) if rule.startswith(MEASURED) else None


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
