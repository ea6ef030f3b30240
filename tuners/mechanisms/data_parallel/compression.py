"""Gradients that travel in fewer bytes than they have: communication hooks of DistributedDataParallel.

A hook is handed one bucket of gradients after the other and gives back their average over the workers. All of
them must come to the same bits, or their models drift apart; here what each decodes is what all were sent.
torch has hooks for 16 bits and for PowerSGD, the largest values and 8 bits are ours.
"""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Semantics
from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_gather, all_reduce

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch import Tensor
    from torch.futures import Future

HOOKS = {
    "none": Semantics.ROUNDING,
    "fp16": Semantics.PRECISION,
    "bf16": Semantics.PRECISION,
    "powersgd": Semantics.TRAINING,
    "topk": Semantics.TRAINING,
    "int8": Semantics.TRAINING,
}
"""Hooks by name, with what they do to the numbers."""
MATRIX_RANK = 1  # of PowerSGD's matrices
COMPRESSION_RATE = 2  # a matrix must shrink by more, or PowerSGD sends it whole
FIRST_LOW_RANK = 2  # exchanges sent whole before: torch allows no fewer, since buckets change after the first
SHARE = 0.01  # of the values, the largest, that top-k sends
BLOCK = 2048  # values that share one scale in 8 bits
LEVELS = 127  # steps of 8 bits on either side of zero


class TopK:
    """Sends the largest hundredth of the values of a bucket, and keeps the others for the next time.

    Choosing the largest is biased: what is small would never arrive. So each worker adds what it has not
    sent to its next gradient (error feedback; Stich, Cordonnier and Jaggi, "Sparsified SGD with Memory",
    2018, and Karimireddy and others, "Error Feedback Fixes SignSGD", 2019). Workers choose different values,
    so places travel too.

    Attributes:
        unsent: What is kept, by parameter: buckets change after the first exchange.
    """

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        self._group = group
        self.unsent: dict[Tensor, Tensor] = {}

    def average(self, bucket: Any) -> "Future[Tensor]":
        """The sum of what the workers send of this bucket, divided by their number."""
        import torch
        import torch.distributed as dist

        flat: Tensor = bucket.buffer()
        message = self._message(flat, bucket.parameters())
        workers = dist.get_world_size(self._group)
        received = torch.empty(workers * len(message), dtype=message.dtype, device=message.device)
        sending = _gathering(received, message, self._group)

        def decoded(done: "Future[Any]") -> "Tensor":
            done.value()  # raises what went wrong
            _keep(message, received)
            sums = sum_of_largest(received.view(workers, -1), flat.numel())
            return flat.copy_(sums.div_(workers))

        averaged: Future[Tensor] = sending.get_future().then(decoded)
        return averaged

    def _message(self, flat: "Tensor", parameters: "list[Tensor]") -> "Tensor":
        import torch

        total = flat.to(torch.float32, copy=True)
        pieces = total.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            if parameter in self.unsent:
                piece.add_(self.unsent[parameter])
        message = take_largest(total)
        self.unsent.update(zip(parameters, pieces, strict=True))
        return message


class Int8:
    """Sends 8 bits of each value, rounded up or down at random so that the mean is right.

    Each worker is sent its part of all gradients, averages it in 32 bits, and sends the average to all, as
    the compressed all-reduce of 1-bit Adam (Tang and others, 2021) does; so the bytes do not grow with the
    number of workers. Rounding at random is unbiased, with a bounded variance, for which SGD needs no error
    feedback (Alistarh and others, "QSGD", 2017); 1-bit Adam, whose rounding is biased, does. Every block of
    values has a scale of its own, that of its largest one.
    """

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        self._group = group
        self._generator: torch.Generator | None = None
        self._stream: Any = None

    def average(self, bucket: Any) -> "Future[Tensor]":
        """The mean over the workers of what 8 bits hold of this bucket, itself sent in 8 bits."""
        import torch
        import torch.distributed as dist

        flat: Tensor = bucket.buffer()
        workers = dist.get_world_size(self._group)
        with self._aside(flat):
            sent = self._encoded(parts_of(flat, workers))
            received = torch.empty_like(sent)
            # not chained by callbacks: gloo's would wait for its own threads
            dist.all_to_all_single(received, sent, group=self._group)
            width = part_size(flat.numel(), workers)
            mean = self._encoded(decode(received, width).mean(0, keepdim=True))
            means = torch.empty_like(sent)
            sending = _gathering(means, mean, self._group)

        def decoded(done: "Future[Any]") -> "Tensor":
            done.value()  # raises what went wrong
            _keep(mean, means)
            return flat.copy_(decode(means, width).view(-1)[: flat.numel()])

        averaged: Future[Tensor] = sending.get_future().then(decoded)
        return averaged

    def _encoded(self, parts: "Tensor") -> "Tensor":
        """In 8 bits, with random numbers of our own: the program's own must not move on."""
        import torch
        import torch.distributed as dist

        if self._generator is None:
            self._generator = torch.Generator(parts.device).manual_seed(1 + dist.get_rank(self._group))
        return encode(parts, self._generator)

    def _aside(self, flat: "Tensor") -> "AbstractContextManager[Any]":
        """A CUDA stream of our own, so that backward does not wait for the first message."""
        if not flat.is_cuda:
            return nullcontext()
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream(flat.device)
        self._stream.wait_stream(torch.cuda.current_stream(flat.device))
        return torch.cuda.stream(self._stream)


def register(model: Any, hook: str, group: "dist.ProcessGroup | None" = None) -> None:
    """Have a DistributedDataParallel model average its gradients by this hook.

    Args:
        model: The wrapped model, before its first exchange.
        hook: One of ``HOOKS``.
        group: The workers; all processes where ``None``.
    """
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    if hook == "fp16":
        model.register_comm_hook(group, default_hooks.fp16_compress_hook)
    elif hook == "bf16":
        model.register_comm_hook(group, default_hooks.bf16_compress_hook)
    elif hook == "powersgd":
        _register_powersgd(model, group)
    elif hook in ("topk", "int8"):
        ours = TopK(group) if hook == "topk" else Int8(group)
        # without annotations, of which torch checks the values
        model.register_comm_hook(ours, lambda state, bucket: state.average(bucket))


def _register_powersgd(model: Any, group: "dist.ProcessGroup | None") -> None:
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    state = PowerSGDState(
        group,
        matrix_approximation_rank=MATRIX_RANK,
        start_powerSGD_iter=FIRST_LOW_RANK,
        min_compression_rate=COMPRESSION_RATE,
        orthogonalization_epsilon=1e-8,  # a gradient of zeros would become NaN
    )
    if dist.get_backend(group) != "gloo":
        model.register_comm_hook(state, powerSGD_hook)
    else:
        model.register_comm_hook(state, lambda state, bucket: _waited_for(powerSGD_hook(state, bucket)))


def _waited_for(future: "Future[Tensor]") -> "Future[Tensor]":
    """One bucket at a time: callbacks of several would hold all of gloo's threads (pytorch #48478)."""
    future.wait()
    return future


def sent_by(hook: str, workers: int, parameters: "Iterable[Tensor]", buckets: Iterable[int]) -> float:
    """Bytes that one worker sends when all gradients are averaged once, on average over the workers.

    ``none``: a ring all-reduce, 2 (n-1)/n of all bytes (Patarasuk and Yuan, 2009). ``fp16``, ``bf16``: the
    same with 2 bytes a value. ``powersgd``: the same with r (rows + columns) values for each matrix that
    shrinks by more than ``COMPRESSION_RATE`` (Vogels and others, 2019). ``topk``: 8 bytes for each value
    sent, to n-1 workers. ``int8``: 2 (n-1)/n of one byte a value and 4 for each scale.

    Args:
        hook: One of ``HOOKS``.
        workers: How many there are.
        parameters: Those that are trained.
        buckets: Values in each bucket.
    """
    trained = list(parameters)
    if hook == "topk":
        return sum(all_gather(workers * topk_bytes(size), workers) for size in buckets)
    if hook == "int8":
        return sum(all_reduce(workers * int8_bytes(size, workers), workers) for size in buckets)
    if hook == "powersgd":
        whole = sum(low_rank_values(each.shape) * each.element_size() for each in trained)
    elif hook in ("fp16", "bf16"):
        whole = sum(2 * each.numel() for each in trained)
    else:
        whole = sum(each.nbytes for each in trained)
    return all_reduce(whole, workers)


def collectives(hook: str, buckets: int) -> int:
    """How many collectives average all gradients once: each costs its messages' heads beside its values.

    PowerSGD sends what it leaves whole, the first and the second factors of a bucket one after the other;
    8 bits go to the worker that averages them and from it to all.
    """
    return buckets * {"powersgd": 3, "int8": 2}.get(hook, 1)


def topk_bytes(size: int) -> int:
    """Of the message for a bucket of ``size`` values: a float and a place for each one chosen."""
    return 8 * number_chosen(size)


def number_chosen(size: int) -> int:
    """How many of ``size`` values top-k sends, at least one."""
    return max(1, math.ceil(size * SHARE))


def int8_bytes(size: int, workers: int) -> int:
    """Of one part of a bucket of ``size`` values in 8 bits: its values and its scales."""
    width = part_size(size, workers)
    return width + 4 * -(-width // BLOCK)


def part_size(size: int, workers: int) -> int:
    """Values of a bucket that one worker averages."""
    return -(-size // workers)


def low_rank_values(shape: Iterable[int]) -> int:
    """Values that PowerSGD sends of a parameter, as torch's hook decides it."""
    sizes = list(shape)
    rows, whole = sizes[0], 1
    for size in sizes:
        whole *= size
    columns = whole // rows
    low = (rows + columns) * min(rows, columns, MATRIX_RANK)
    return low if low * COMPRESSION_RATE < whole else whole


def take_largest(total: "Tensor") -> "Tensor":
    """The largest values and their places in one message of 4-byte numbers; they become zero in ``total``.

    What is not finite does not stay either: an overflow must not come back in every later step.
    """
    import torch

    places = torch.topk(total.abs(), number_chosen(total.numel()), sorted=False).indices
    values = total[places]
    total[places] = 0
    total.nan_to_num_(0.0, 0.0, 0.0)
    return torch.cat([values.view(torch.int32), places.to(torch.int32)])


def sum_of_largest(messages: "Tensor", size: int) -> "Tensor":
    """What all workers sent, a row of ``messages`` each, added up in the same order everywhere."""
    import torch

    total = torch.zeros(size, device=messages.device)
    for message in messages:
        values, places = message.view(2, -1)
        total[places.long()] += values.view(torch.float32)  # no place occurs twice in a message
    return total


def parts_of(flat: "Tensor", workers: int) -> "Tensor":
    """As many rows as there are workers, filled up with zeros."""
    import torch

    width = part_size(flat.numel(), workers)
    missing = workers * width - flat.numel()
    return torch.nn.functional.pad(flat.to(torch.float32), (0, missing)).view(workers, width)


def encode(rows: "Tensor", generator: Any = None) -> "Tensor":
    """Each row in 8 bits a value, followed by the bytes of its blocks' scales.

    A value lies between two multiples of its scale and becomes the upper one with the probability that makes
    its mean right.
    """
    import torch

    count, width = rows.shape
    missing = -width % BLOCK
    blocks = torch.nn.functional.pad(rows, (0, missing)).view(count, -1, BLOCK)
    scales = blocks.abs().amax(2) / LEVELS
    scaled = blocks / torch.where(scales > 0, scales, 1).unsqueeze(2)
    chance = torch.rand(scaled.shape, generator=generator, device=scaled.device)
    codes = (scaled + chance).floor_().clamp_(-LEVELS, LEVELS).to(torch.int8)
    return torch.cat([codes.view(count, -1)[:, :width], scales.view(torch.int8)], 1)


def decode(rows: "Tensor", width: int) -> "Tensor":
    """The values of rows made by ``encode``; NaN where the scale is not finite."""
    import torch

    codes = rows[:, :width].to(torch.float32)
    scales = rows[:, width:].clone(memory_format=torch.contiguous_format).view(torch.float32)
    return codes * scales.repeat_interleave(BLOCK, 1)[:, :width]


def _gathering(received: "Tensor", sent: "Tensor", group: "dist.ProcessGroup | None") -> Any:
    """All that the workers send, under way; by torch's newer name for it where there is one."""
    import torch.distributed as dist

    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return gather(received, sent, group=group, async_op=True)


def _keep(*tensors: "Tensor") -> None:
    """Tell CUDA's allocator that the present stream comes after what reads these."""
    import torch

    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
