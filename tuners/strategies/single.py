"""One process."""

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy import Strategy


class Single(Strategy):
    """One process trains alone, on one device: the baseline.

    On two CPU cores a single process with two threads was as fast as two ranks or faster on every program
    measured; a GPU more is what makes other strategies worth trying.
    """

    semantics = Semantics.EXACT
    written = ("torchrun",)

    def change(self) -> Change:
        return Change("# one process, without torch.distributed")
