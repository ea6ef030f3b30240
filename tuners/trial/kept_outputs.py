"""Outputs of a model for samples that can be told from each other, in a file."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class KeptOutputs:
    """What a model answered.

    Attributes:
        keys: One for each sample: its place in the dataset, or a digest of its input and how often that came.
        outputs: Tensors, numbers and texts in dicts and lists, whatever kind of mapping or tuple held them.
        scores: By the user's metric; empty without one.
    """

    keys: list[str] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def add(self, key: str, output: Any, score: float | None = None) -> None:
        """Keep a copy of one."""
        self.keys.append(key)
        self.outputs.append(plain(output))
        if score is not None:
            self.scores.append(score)

    def write(self, path: Path) -> None:
        """Write all of it."""
        import torch

        torch.save(asdict(self), path)

    @classmethod
    def read(cls, path: Path) -> "KeptOutputs":
        """What was written. Nothing of it is executed."""
        import torch

        return cls(**torch.load(path, weights_only=True))


def plain(value: Any) -> Any:
    """Copies of tensors on the host, in plain containers; of other objects the name of their type."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if hasattr(value, "detach"):
        return value.detach().cpu().clone()
    if isinstance(value, bool | int | float | complex | str) or value is None:
        return value
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of numpy
        return value.tolist()
    return type(value).__name__


def digest(value: Any) -> str:
    """Names an input by its content."""
    found = hashlib.sha256()
    for part in _bytes(value):
        found.update(part)
    return found.hexdigest()[:16]


def _bytes(value: Any) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name).encode()
            yield from _bytes(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _bytes(part)
    elif hasattr(value, "detach"):
        import torch

        kept = value.detach().cpu().contiguous()
        yield f"{kept.dtype}{tuple(kept.shape)}".encode()
        yield kept.reshape(-1).view(torch.uint8).numpy().tobytes() if kept.numel() else b""
    elif isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
