"""Whether a model answers the inputs that it was calibrated with."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import each_tensor

if TYPE_CHECKING:
    from torch.nn import Module

OBSERVERS = "torch.ao.quantization.observer"
MOST = 20_000  # inputs that are remembered
LOOKED = 512  # later calls whose inputs are looked up
BYTES = 1 << 16  # of an input, by which it is known


class Calibration:
    """Remembers the inputs of calls with observers in the model, and looks up those of later calls."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._calls = self._rows = self._again = 0

    @property
    def distinct(self) -> int:
        """How many different inputs calibrated a model."""
        return len(self._known)

    @property
    def share(self) -> float | None:
        """Of the inputs answered later, those that calibrated it; ``None`` before anything was compared."""
        return self._again / self._rows if self._rows else None

    def calibrates(self, module: "Module") -> bool:
        """Whether a call of the model only observes its activations, to quantise it afterwards."""
        if self._calls >= LOOKED or OBSERVERS not in sys.modules:
            return False
        from torch.ao.quantization.observer import ObserverBase

        return any(isinstance(member, ObserverBase) for member in module.modules())

    def note(self, inputs: Any) -> None:
        """A model was calibrated with these."""
        if len(self._known) < MOST:
            self._known.update(_rows(inputs))

    def compare(self, inputs: Any) -> None:
        """A model answers these."""
        if self._calls >= LOOKED:
            return
        self._calls += 1
        if self._known:
            for row in _rows(inputs):
                self._rows += 1
                self._again += row in self._known


def _rows(inputs: Any) -> Iterator[int]:
    """What tells the samples of the first tensor from each other."""
    first = next((tensor for tensor in each_tensor(inputs) if tensor.dim()), None)
    for row in first.detach() if first is not None else ():
        flat = row.reshape(-1)[: BYTES // max(1, row.element_size())].cpu()
        yield hash(bytes(flat.float().numpy().data) if flat.dtype.is_floating_point else str(flat.tolist()))
