"""Micro-batches: a batch in parts, with one update after the last of them."""

from typing import TYPE_CHECKING

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.mechanisms.micro_batches import SPLITTING

if TYPE_CHECKING:
    from torch.optim import Optimizer

MOST = 8  # micro-batches that are proposed
PROPOSAL = (
    "only a workload's loop can be changed: in a script split each batch into k parts, call "
    "(loss / k).backward() for each, then optimizer.step() once"
)


class Accumulation(Knob[int]):
    """Into how many micro-batches each batch is split; gradients add up until the one update.

    Only the activations of one micro-batch are in memory at a time, which makes room for a larger batch
    than fits at once. It saves no time by itself: the same samples are computed in more and smaller
    operations.

    The sum of the parts is the gradient of the whole batch when the loss is a mean over samples: four
    parts differed by 1e-7 in the loss. Batch norm normalises each part by itself, which is another training
    (3e-3), so there it is tried only when named, and counts as a change of the training; a mean over tokens
    weighs the parts unequally, and dropout draws other masks. With `DistributedDataParallel` each part but
    the last belongs under `no_sync`.
    """

    semantics = Semantics.ROUNDING
    live = True
    written = ("loss / 2",)

    def __init__(self) -> None:
        self._normalises = False  # each micro-batch by itself

    def values(self) -> range:
        return range(1, 1025)

    def present(self, profile: Profile) -> int:
        if profile.target_kind != "workload":
            raise Refused(PROPOSAL)
        self._normalises = any(root.has_batch_norm for root in profile.roots)
        return 1

    def meaning(self, config: Config) -> Semantics:
        """Another training where the program for which ``present`` was asked last has batch norm."""
        return Semantics.TRAINING if self._normalises else self.semantics

    def choices(self, profile: Profile) -> list[int]:
        present = self.present(profile)
        size = _batch_size(profile)
        if profile.run is None or profile.run.sum_reduced_loss is None:
            raise Refused("it is not known whether the loss is a mean over the batch")
        if self._normalises:
            raise Refused("batch norm normalises each micro-batch by itself, which changes the training")
        divisors = [parts for parts in range(2, MOST + 1) if size % parts == 0]
        if not divisors:
            raise Refused(f"a batch of {size} has no equal parts, up to {MOST}")
        self.check(divisors[0], profile)
        return [present, *divisors]

    def check(self, value: int, profile: Profile) -> None:
        self.present(profile)
        size = _batch_size(profile)
        if size % value:
            raise Refused(f"a batch of {size} cannot be split into {value} equal parts")
        if profile.run is not None and profile.run.sum_reduced_loss:
            raise Refused("the loss is summed over the batch, and the parts are averaged")
        if any(root.parallel for root in profile.roots):
            raise Refused("the gradients of each micro-batch would be exchanged: that needs no_sync")

    def process(self, value: int) -> None:
        """Set how the loop splits batches from the next one on."""
        SPLITTING.parts = value

    def step(self, optimizer: "Optimizer", value: int) -> None:
        """Look whether the gradients of this update came from micro-batches.

        Raises:
            Refused: The loop is not ours, or the batch could not be split.
        """
        reason = SPLITTING.refusal if SPLITTING.used else PROPOSAL
        if reason is not None:
            SPLITTING.parts = 1
            raise Refused(reason)

    def change(self, value: int) -> Change:
        if value == 1:
            return Change("# each batch is computed as a whole")
        return Change(
            f"for inputs, target in zip(inputs.chunk({value}), target.chunk({value})):\n"
            f"    (loss_function(model(inputs), target) / {value}).backward()\n"
            "optimizer.step()  # once, after the last part"
        )


def _batch_size(profile: Profile) -> int:
    size = profile.loader.batch_size if profile.loader is not None else None
    if size is None:
        raise Refused("the size of a batch is not known")
    return size
