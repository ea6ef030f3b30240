"""How much of what a step computes is read: a part that is taken by an index, or that no zero erases.

Values are known by the numbers that ``lineage.py`` gives them. Each call says what it takes of its inputs:
an index as many elements as come out, a factor that is repeated over a dimension those that it does not
multiply by zero, and any other call all. From the last call back, what is asked of a result is asked of its
inputs, as far as each row of the result comes from one row of the input. A result of which no use was met
counts as read, and so does a use that this cannot judge.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.profiles.facts.observed import Location

if TYPE_CHECKING:
    from torch import Tensor

PRODUCTS = frozenset({"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "conv1d", "conv2d", "conv3d"})
BY_ROWS = frozenset({
    "linear", "relu", "gelu", "silu", "tanh", "sigmoid", "elu", "leaky_relu", "dropout", "layer_norm",
    "rms_norm", "add", "__add__", "__radd__",
})  # fmt: skip
"""Each row (all but the last dimension) of the result needs the same row of the inputs, and no other."""
FACTORS = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
PARTS = frozenset({"__getitem__", "select", "narrow", "index_select"})
ASKING = frozenset({"__get__", "size", "dim", "numel", "stride", "__len__", "is_contiguous", "backward"})
"""Functions that read no elements, where they give no tensor."""
UNREAD = 0.5  # of a result, from where it is told: less is often cheaper than to index. Chosen, not measured
COUNTED = 65_536  # elements of a factor up to which its zeros are counted


@dataclass
class Made:
    """One result: the line and phase that made it, and what is asked of it, as shares (0 to 1)."""

    site: tuple[Location, str]
    name: str
    spent: int
    rows: int
    inputs: tuple[int, ...]
    elements: float = 0.0  # of all, that are read
    whole_rows: float = 0.0  # of its rows, of which anything is read
    uses: int = 0
    masked: bool = field(default=False)

    def ask(self, elements: float, rows: float) -> None:
        """Something reads a part of it."""
        self.elements, self.whole_rows = min(1.0, self.elements + elements), min(1.0, self.whole_rows + rows)
        self.uses += 1


class Demand:
    """What the calls of one step take of each other's results."""

    def __init__(self) -> None:
        self._made: dict[int, Made] = {}
        self._blind = False

    def clear(self) -> None:
        """A new step begins."""
        self._made.clear()
        self._blind = False

    def unseen(self) -> None:
        """A value came up of which the calls were not met: something may have read anything."""
        self._blind = True

    def called(
        self, name: str, inputs: Iterable[tuple[int, "Tensor"]], outputs: list["Tensor"]
    ) -> tuple[int, ...]:
        """A call took these values.

        Args:
            name: Of the function.
            inputs: Numbers and tensors that it was given.
            outputs: What it gave.

        Returns:
            Those of which is asked what is asked of the result: to be handed to ``made``.
        """
        if name in ASKING and not outputs:
            return ()
        passed: list[int] = []
        given = list(inputs)
        if name in FACTORS and self._multiplied(given):
            return ()
        for number, tensor in given:
            if number not in self._made:
                continue
            result = self._made[number]
            if name in PARTS and len(outputs) == 1 and tensor.numel():
                part = min(1.0, outputs[0].numel() / tensor.numel())
                same = outputs[0].shape[-1:] == tensor.shape[-1:]
                result.ask(part, part if same else 1.0)
            elif name in BY_ROWS and len(outputs) == 1 and _rows(tensor) == _rows(outputs[0]):
                passed.append(number)
            else:
                result.ask(1.0, 1.0)
        return tuple(passed)

    def _multiplied(self, inputs: list[tuple[int, "Tensor"]]) -> bool:
        """Two tensors are multiplied, one of them repeated over the last dimension: asks for the other."""
        if len(inputs) != 2:
            return False
        (number, large), (_, factor) = sorted(inputs, key=lambda each: -each[1].numel())
        plain = factor.device.type == "cpu" and factor.numel() <= COUNTED
        rows = _rows(large)
        if number not in self._made or not plain or factor.numel() != rows or factor.shape[-1:] != (1,):
            return False
        part = float(factor.detach().count_nonzero()) / max(1, rows)
        self._made[number].ask(part, part)
        self._made[number].masked |= part < 1
        return True

    def made(
        self,
        number: int,
        site: tuple[Location, str],
        name: str,
        spent: int,
        result: "Tensor",
        inputs: tuple[int, ...],
    ) -> None:
        """A call gave a result; what it asks of ``inputs`` is what is asked of it."""
        if number in self._made:  # the same value again: nothing is known of its parts
            self._made[number].ask(1.0, 1.0)
            for each in inputs:
                self._made[each].ask(1.0, 1.0)
            return
        self._made[number] = Made(site, name, spent, _rows(result), inputs)

    def unread(self) -> list[tuple[Made, float]]:
        """Products and what leads to them alone, each with the share (0 to 1) of it that is read."""
        if self._blind:
            return []
        found = []
        for result in reversed(self._made.values()):
            if not result.uses:
                result.ask(1.0, 1.0)
            for number in result.inputs:
                before = self._made[number]
                before.ask(result.whole_rows, result.whole_rows)
                before.masked |= result.masked
            if result.name in PRODUCTS | BY_ROWS and result.elements <= 1 - UNREAD:
                found.append((result, result.elements))
        return found if any(result.name in PRODUCTS for result, _ in found) else []


def _rows(tensor: "Tensor") -> int:
    return tensor.numel() // max(1, tensor.shape[-1]) if tensor.dim() else 1
