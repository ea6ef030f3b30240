"""One worker's stage of a model, and the schedule by which all stages train it together."""

import gc
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.data_parallel.same_batches import (
    OwnRandomNumbers,
    SameBatches,
    share_random_state,
)
from advisor.tuners.mechanisms.pipeline.model_stages import split
from advisor.tuners.mechanisms.pipeline.output_loss import loss_of_output, model_input
from advisor.tuners.mechanisms.pipeline.stage_proof import in_parts, prove
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Loss

SINGLE = "a pipeline needs two stages or more"
EMPTY = "a micro-batch would be empty"

Border = tuple[torch.Size, torch.dtype]


class Stage(nn.Module):
    """One worker's part of a model in training; in evaluation all workers together are the whole model.

    Attributes:
        received: Shape and type of what came in when all workers last computed an output together.
        produced: Of what this worker made of it.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.received: Border | None = None
        self.produced: Border | None = None
        self._last = HERE.place.rank == HERE.place.workers - 1

    def forward(self, inputs: Tensor) -> Any:
        """What the next stage gets; in evaluation the output of the last one, on every worker."""
        if not self.training:
            return self.relay(inputs)
        output = self.module(inputs)
        return output if self._last else output.contiguous()  # messages have no strides

    def relay(self, inputs: Tensor) -> Tensor:
        """Compute one stage after the other, each on its worker; all workers call this with one input."""
        place, passed = HERE.place, inputs
        device = torch.device(place.device)
        for rank in range(place.workers):
            if rank == place.rank:
                output: Tensor = self.module(passed).detach().contiguous()
                self.received, self.produced = _border(passed), _border(output)
            described = [self.produced]
            dist.broadcast_object_list(described, rank, HERE.among_workers, device)
            if rank != place.rank:
                assert described[0] is not None  # what that worker has produced
                shape, dtype = described[0]
                output = torch.empty(shape, dtype=dtype, device=device)
            dist.broadcast(output, rank, HERE.among_workers)
            passed = output
        return passed


class Pipelined:
    """Trains one stage in step with the other workers.

    Args:
        model: The whole one, the same on every worker.
        schedule: ``gpipe`` or ``1f1b``.
        parts: Micro-batches of each batch, or the largest number below that divides it.

    Attributes:
        stage: This worker's own.

    Raises:
        Refused: The model cannot be split.
    """

    def __init__(self, model: nn.Module, schedule: str, parts: int) -> None:
        workers = HERE.place.workers
        if workers < 2:
            raise Refused(SINGLE)
        if schedule == "1f1b" and parts < workers:
            raise Refused(f"1f1b with {workers} stages needs at least {workers} micro-batches, not {parts}")
        self._kind, self._most = schedule, parts
        self._whole: nn.Module | None = model
        self._stages: list[Any] = split(model, workers)
        self.stage = Stage(self._stages[HERE.place.rank])
        share_random_state()
        self._random_numbers = OwnRandomNumbers()
        self._same = SameBatches()
        self._shape: Border | None = None
        self._schedule: ScheduleGPipe | Schedule1F1B | None = None
        self._loss: Loss | None = None
        self._micro_batches: list[Any] = []
        self._divisor = 1.0
        self._parts = 0
        self._sent = self._sent_per_update = 0

    def forward_backward(self, loss: Loss, batch: Any, divisor: float) -> None:
        """Add the gradients of this stage for one batch, which all workers hold.

        Raises:
            Refused: Of the first batch: the stages do not compute what the model does. Of others: the
                workers hold different ones.
        """
        inputs = model_input(batch)
        self._same.check(batch)
        if self._whole is not None:
            prove(self._whole, self._stages, loss, batch, _divisor_of(len(inputs), self._most))
            self._whole, self._stages = None, []
            gc.collect()  # modules of the other stages and their graphs refer to each other
        with self._random_numbers:
            schedule = self._schedule_for(inputs)
            self._loss, self._divisor = loss, divisor * self._parts
            self._micro_batches = in_parts(batch, self._parts)
            arguments: dict[str, Any] = {}
            if self._is_last:
                arguments["target"] = torch.arange(self._parts)  # a micro-batch is known by its number
            schedule.step(*([inputs] if self._is_first else []), return_outputs=False, **arguments)
        self._micro_batches = []
        self._sent += self._bytes_of_batch()

    def updated(self) -> None:
        """An update was made."""
        self._sent_per_update, self._sent = self._sent, 0

    def clip(self, limit: float) -> None:
        """Limit the norm of the gradients of all stages together."""
        parameters = list(self.stage.parameters())
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        square = torch.zeros((), dtype=torch.float64, device=HERE.place.device)
        if gradients:
            square += torch.nn.utils.get_total_norm(gradients).double() ** 2
        dist.all_reduce(square, group=HERE.among_workers)
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, square.sqrt().float())

    def report(self) -> dict[str, Any]:
        """Sizes of the pipeline as it ran, and bytes sent per update."""
        stages, parts = HERE.place.workers, self._parts or self._most
        return {
            "stages": stages,
            "schedule": "1f1b" if isinstance(self._schedule, Schedule1F1B) else "gpipe",
            "micro_batches": parts,
            "bubble_share": (stages - 1) / (parts + stages - 1),
            "largest_parameter_bytes": max((each.nbytes for each in self.stage.parameters()), default=0),
            "stage_parameters": sum(parameter.numel() for parameter in self.stage.parameters()),
            "bytes_per_step": self._sent_per_update,
        }

    @property
    def _is_first(self) -> bool:
        return HERE.place.rank == 0

    @property
    def _is_last(self) -> bool:
        return HERE.place.rank == HERE.place.workers - 1

    def _schedule_for(self, inputs: Tensor) -> ScheduleGPipe | Schedule1F1B:
        """That of the last batch, if this one has its shape; the last batch of an epoch may be smaller."""
        if self._schedule is not None and self._shape == _border(inputs):
            return self._schedule
        place = HERE.place
        self._shape, self._parts = _border(inputs), _divisor_of(len(inputs), self._most)
        with torch.no_grad():
            self.stage.relay(inputs[: len(inputs) // self._parts])
        assert self.stage.received is not None and self.stage.produced is not None
        stage = PipelineStage(
            self.stage,
            place.rank,
            place.workers,
            torch.device(place.device),
            input_args=_like(self.stage.received, gradient=not self._is_first),
            output_args=_like(self.stage.produced, gradient=True),
            group=HERE.among_workers,
        )
        alternates = self._kind == "1f1b" and self._parts >= place.workers
        kind = Schedule1F1B if alternates else ScheduleGPipe
        self._schedule = kind(stage, self._parts, loss_fn=self._loss_of, scale_grads=False)
        return self._schedule

    def _loss_of(self, output: Tensor, number: Tensor) -> Tensor:
        """The share of one micro-batch in the loss of the whole batch."""
        assert self._loss is not None  # set before each step
        return loss_of_output(self._loss, output, self._micro_batches[int(number)]) / self._divisor

    def _bytes_of_batch(self) -> int:
        """Activations sent to the next stage, and gradients sent to the one before."""
        forward = 0 if self._is_last else _bytes(self.stage.produced)
        backward = 0 if self._is_first else _bytes(self.stage.received)
        return self._parts * (forward + backward)


def _divisor_of(samples: int, most: int) -> int:
    """The largest number of equal parts, up to ``most``."""
    if not samples:
        raise Refused(EMPTY)
    return next(parts for parts in range(min(most, samples), 0, -1) if samples % parts == 0)


def _border(value: Tensor) -> Border:
    return value.shape, value.dtype


def _like(border: Border, *, gradient: bool) -> Tensor:
    shape, dtype = border
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=gradient and dtype.is_floating_point)


def _bytes(border: Border | None) -> int:
    assert border is not None  # known since the first batch
    shape, dtype = border
    return shape.numel() * dtype.itemsize
