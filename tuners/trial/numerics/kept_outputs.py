"""Outputs of a model for samples that can be told from each other, in a file."""

import hashlib
import io
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any


@dataclass
class KeptOutputs:
    """What a model answered.

    Attributes:
        keys: One for each sample: its place in the dataset, or a digest of its input and how often that came.
        outputs: Tensors, numbers and texts in dicts and lists, whatever kind of mapping or tuple held them.
        scores: By the user's metric; empty without one.
        asked: A digest of each input: the same for samples that ask the same.
    """

    keys: list[str] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def add(self, key: str, output: Any, asked: str, score: float | None = None) -> None:
        """Keep a copy of one."""
        self.keys.append(key)
        self.asked.append(asked)
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
    """Copies of tensors on the host, in plain containers; of other objects their type over nothing.

    Tensors that are sparse, nested or quantised become dense ones; dataclasses, mappings of their fields.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if hasattr(value, "detach"):
        return _copied(dense(value))
    if isinstance(value, bool | int | float | complex | str) or value is None:
        return value
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of numpy
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return {type(value).__name__: None}


def _copied(value: Any) -> Any:
    return [_copied(part) for part in value] if isinstance(value, list) else value.clone()


def dense(tensor: Any) -> Any:
    """A tensor on the host as numbers in rows, or a list of them where it is nested."""
    import torch

    kept = tensor.detach()
    if kept.is_nested:
        return [dense(part) for part in kept.unbind()]
    if kept.is_quantized:
        kept = kept.dequantize()
    if kept.layout is not torch.strided:
        kept = kept.to_dense()
    return kept.as_subclass(torch.Tensor).cpu().resolve_conj().resolve_neg()


def comparable(value: Any) -> bool:
    """Whether something plain holds anything but names of types."""
    if isinstance(value, dict | list):
        return any(map(comparable, value.values() if isinstance(value, dict) else value))
    return value is not None


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

        kept = dense(value)
        if isinstance(kept, list):
            for part in kept:
                yield from _bytes(part)
            return
        kept = kept.contiguous()
        yield f"{kept.dtype}{tuple(kept.shape)}".encode()
        yield kept.reshape(-1).view(torch.uint8).numpy().tobytes() if kept.numel() else b""
    elif isinstance(value, bool | int | float | complex | str | bytes) or value is None:
        yield repr(value).encode()
    elif hasattr(value, "dtype") and hasattr(value, "tobytes"):  # of numpy
        yield f"{value.dtype}{value.shape}".encode()
        yield pickle.dumps(value.tolist()) if value.dtype.hasobject else value.tobytes()
    else:
        yield type(value).__name__.encode()
        written = io.BytesIO()
        try:
            _Writer(written).dump(value)
        except (pickle.PicklingError, TypeError, AttributeError):  # its content cannot be told
            return
        yield written.getvalue()


class _Writer(pickle.Pickler):
    """Writes tensors by their content: they have numbers of their own in a pickle."""

    def reducer_override(self, value: Any) -> Any:
        return (bytes, (b"".join(_bytes(value)),)) if hasattr(value, "detach") else NotImplemented
