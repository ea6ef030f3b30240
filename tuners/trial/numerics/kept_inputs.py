"""What requests asked, in a file: so a changed program that goes on from its answers is asked the same."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MOST_BYTES = 256 * 2**20


class NotPlain(Exception):
    """An argument is neither a tensor nor a plain value: another process cannot be asked with it."""


@dataclass
class KeptInputs:
    """Requests in the order in which they came.

    Attributes:
        kinds: Of what was asked, as ``Requests.asks`` names it.
        args: A tuple for each.
        kwargs: A dict for each.
        bytes: Of all tensors together.
    """

    kinds: list[str] = field(default_factory=list)
    args: list[Any] = field(default_factory=list)
    kwargs: list[Any] = field(default_factory=list)
    bytes: int = 0

    @property
    def full(self) -> bool:
        """No more is kept."""
        return self.bytes >= MOST_BYTES

    def add(self, kind: str, args: Any, kwargs: Any) -> None:
        """Keep a copy of one.

        Raises:
            NotPlain: It cannot be kept.
        """
        kept = _copied(tuple(args)), _copied(dict(kwargs))
        self.kinds.append(kind)
        self.args.append(kept[0])
        self.kwargs.append(kept[1])
        self.bytes += _bytes(kept)

    def write(self, path: Path) -> None:
        """Write all of it."""
        import torch

        torch.save(asdict(self), path)

    @classmethod
    def read(cls, path: Path) -> "KeptInputs":
        """What was written, on the device that it was on. Nothing of it is executed."""
        import torch

        return cls(**torch.load(path, weights_only=True))


def _copied(value: Any) -> Any:
    import torch

    if type(value) is torch.Tensor:
        return value.detach().clone()
    if type(value) is dict:
        return {_copied(name): _copied(part) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_copied(part) for part in value)
    if value is None or type(value) in (bool, int, float, complex, str):
        return value
    raise NotPlain(type(value).__name__)


def _bytes(value: Any) -> int:
    import torch

    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, tuple | list) else 0
