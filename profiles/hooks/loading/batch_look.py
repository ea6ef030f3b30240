"""What the first batches of a loader look like: their size, shapes, padding, and samples that come twice."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import each_tensor, inner_shapes, tensor_type, total_bytes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LOOKED_AT = 32  # batches
HASHED_BYTES = 4096  # of each sample
LEAST_COLUMNS = 8  # of a batch of token ids; labels have fewer
STRAY = 0.01  # of the tokens before the padding that may equal it, such as an end-of-text used for both

Outline = tuple[tuple[tuple[int, ...], "torch.dtype"], ...]


class BatchLook:
    """Looks at the first batches of a loader, and then no more.

    Args:
        workers: Of a loader over an iterable dataset, which may deliver a sample from several of them;
            0 looks for none.

    Attributes:
        running: Whether more batches are wanted.
        outline: Shapes and types of the tensors of the first batch that lie in host memory.
    """

    def __init__(self, workers: int = 0) -> None:
        self.running = True
        self.outline: Outline = ()
        self.batch_bytes: int | None = None
        self.tensors: int | None = None
        self._seen = 0
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._padding = 0.0
        self._tokens = 0
        self._copies = Copies(workers) if workers > 1 else None

    @property
    def shapes(self) -> int | None:
        """How many different shapes there were, without the batch dimension."""
        return len(self._shapes) if self._seen else None

    @property
    def shapes_vary(self) -> bool | None:
        """Whether there was more than one; ``None`` before a second batch."""
        return len(self._shapes) > 1 if self._seen > 1 else None

    @property
    def padding_share(self) -> float | None:
        """Share of padding among the tokens; ``None`` where batches hold no token ids."""
        return self._padding / self._tokens if self._tokens else None

    @property
    def duplicate_share(self) -> float | None:
        """Share of samples that another worker had delivered before; ``None`` where it was not looked for."""
        return self._copies.share if self._copies is not None else None

    def see(self, batch: Any) -> None:
        """A batch was delivered."""
        if not self._seen:
            self.batch_bytes = total_bytes(batch)
            self.tensors = sum(1 for _ in each_tensor(batch))
            self.outline = tuple((tuple(each.shape), each.dtype) for each in _on_host(batch))
        self._seen += 1
        self._shapes.add(inner_shapes(batch))
        padding, tokens = padded(batch)
        self._padding += padding
        self._tokens += tokens
        if self._copies is not None:
            self._copies.see(batch)
        self.running = self._seen < LOOKED_AT

    def end_epoch(self) -> None:
        """From here on the same samples come again."""
        if self._copies is not None:
            self._copies.running = False


class Copies:
    """Finds samples that several workers deliver within one epoch; batches come from them in turn."""

    def __init__(self, workers: int) -> None:
        self.running = True
        self._workers = workers
        self._first: dict[int, int] = {}
        self._again: set[tuple[int, int]] = set()
        self._batches = 0
        self._samples = 0

    @property
    def share(self) -> float | None:
        """Share of samples seen before from another worker and not from their own; those repeat by nature."""
        return len(self._again) / self._samples if self._samples else None

    def see(self, batch: Any) -> None:
        """The next batch of the epoch."""
        if not self.running:
            return
        worker = self._batches % self._workers
        self._batches += 1
        tensor = next(_on_host(batch), None)
        if tensor is None or not tensor.ndim or not tensor.numel():
            return
        for digest in _digests(tensor):
            self._samples += 1
            if self._first.setdefault(digest, worker) != worker:
                self._again.add((digest, worker))


def padded(batch: Any) -> tuple[float, int]:
    """Padding and all tokens of a batch; no tokens where it holds none.

    By its attention mask where it has one, else by the runs of one value at the ends of the rows of its
    largest integer matrix.
    """
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if isinstance(mask, tensor_type()) and mask.ndim == 2 and mask.device.type == "cpu" and mask.numel():
        return mask.numel() - float(mask.sum()), mask.numel()
    matrices = [each for each in _on_host(batch) if _is_tokens(each)]
    if not matrices:
        return 0.0, 0
    tokens = max(matrices, key=lambda each: each.numel())
    return _trailing(tokens), tokens.numel()


def _trailing(tokens: "Tensor") -> float:
    """Length of all runs at the ends of rows of the value that ends most rows, where it is padding."""
    filler = tokens[:, -1].mode().values
    is_filler = tokens == filler
    runs = is_filler.flip(1).cumprod(1).sum(1)
    length = int(runs.sum())
    stray = int(is_filler.sum()) - length
    is_padding = int((runs > 1).sum()) > 1 and stray <= STRAY * (tokens.numel() - length)
    return float(length) if is_padding else 0.0


def _is_tokens(tensor: "Tensor") -> bool:
    import torch

    rows_and_columns = tensor.ndim == 2 and tensor.shape[0] > 1 and tensor.shape[1] >= LEAST_COLUMNS
    return rows_and_columns and tensor.dtype in (torch.int64, torch.int32)  # smaller ones are pixels


def _on_host(batch: Any) -> Iterator["Tensor"]:
    import torch

    for tensor in each_tensor(batch):
        if tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.is_quantized:
            yield tensor


def _digests(tensor: "Tensor") -> Iterator[int]:
    """A hash of each row."""
    import torch

    rows = tensor.detach().reshape(tensor.shape[0], -1)[:, : HASHED_BYTES // tensor.element_size()]
    for row in rows.contiguous().view(torch.uint8).numpy():
        yield hash(row.tobytes())
