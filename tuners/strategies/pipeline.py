"""A model in stages, one on each rank."""

from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.divided_batch import SCRIPT
from advisor.tuners.strategy import Loss, Strategy

if TYPE_CHECKING:
    from torch.nn import Module

    from advisor.tuners.mechanisms.pipeline.pipelined import Pipelined

CODE = """from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
part = stages[rank]  # nn.Sequential of the layers of this rank
stage = PipelineStage(part, rank, ranks, device)
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=loss_function)
optimizer = torch.optim.AdamW(part.parameters())
if rank == 0:
    schedule.step(inputs)
elif rank == ranks - 1:
    schedule.step(target=target)
else:
    schedule.step()
optimizer.step()"""
NORM = "batch norm normalises each micro-batch by itself, which changes the training"
SUMMED = "the loss is summed over the batch, and those of micro-batches are averaged"
EXCLUDED = {
    ("amp", "fp16"): "fp16 scales a loss, and torch's schedules begin backward without telling",
    (
        "low_precision_parameters",
        "bf16",
    ): "stages agree on types before low_precision_parameters changes them",
    ("optimizer_in_backward", "on"): "optimizer_in_backward would update after each micro-batch",
}
"""What other changes do that stages do not stand."""


class Pipeline(Strategy):
    """Splits the model into stages, one on each rank; batches pass through them in micro-batches.

    Each rank holds the parameters, gradients and optimizer state of its stage only. A batch is split into
    micro-batches (`pipeline_chunks`); while the second stage computes the first of them, the first stage
    computes the next. Filling and emptying leaves every stage idle for (p-1)/(m+p-1) of the time with `p`
    stages and `m` micro-batches. `schedule` says in which order forwards and backwards are computed.

    Stages are found in the model's forward: it must be a chain of at least as many parts, such as the layers
    of a `Sequential` or repeated blocks, that hand on one tensor each. They are cut so that the work of the
    stages, estimated from their weights, is as even as it can be. On the first batch every rank computes
    with the whole model too, and the strategy is refused unless the stages give the same output and the
    losses of the micro-batches average to that of the batch: so it is with batch norm, summed losses, and a
    `step` that does more than call the model on the input.

    Per update a rank sends its output, once for each sample, to the next rank, and as many bytes of gradients
    to the one before: activations at the stage's borders, whatever the size of the model. So it pays where
    a model does not fit, or its parameters are large against its activations, and links are slow. One GPU
    more than needed adds idle time only.

    Both schedules ran on two cores (gloo); losses were those of one process up to rounding. Dropout draws
    other numbers. Every rank loads all batches.
    """

    semantics = Semantics.ROUNDING
    splits_batch = False
    losses = "last"

    def __init__(self) -> None:
        self._pipelined: Pipelined | None = None

    def check(self, profile: Profile, ranks: int) -> None:
        parallel = next((root.parallel for root in profile.roots if root.parallel), None)
        if profile.target_kind == "script":
            raise Refused(SCRIPT)
        if parallel is not None:
            raise Refused(f"the program uses {parallel} itself")
        if any(root.has_batch_norm for root in profile.roots):
            raise Refused(NORM)
        if any(root.scripted for root in profile.roots):
            raise Refused("the model is scripted or traced, so its forward cannot be split")
        if any(optimizer.closure for optimizer in profile.optimizers):
            raise Refused("the optimizer computes losses itself, by a closure")
        if profile.run is not None and profile.run.sum_reduced_loss:
            raise Refused(SUMMED)
        if profile.loader is not None and profile.loader.batch_size == 1:
            raise Refused("a batch of 1 cannot be split into micro-batches")

    def change(self) -> Change:
        return Change(CODE)

    def wrap(self, model: "Module") -> "Module":
        import torch

        from advisor.tuners.mechanisms.pipeline.pipelined import Pipelined

        self._pipelined = None
        for (name, value), reason in EXCLUDED.items():
            if self.setting(name, "off") == value:
                raise Refused(reason)
        if self.place.device.startswith("cuda"):
            torch.cuda.set_device(self.place.device)  # objects are sent from the current device
        schedule, parts = self.setting("schedule", "gpipe"), self.setting("pipeline_chunks", 4)
        self._pipelined = Pipelined(model, str(schedule), int(parts))
        return self._pipelined.stage

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        """One batch through all stages and back.

        Raises:
            Refused: Of the first batch: the stages do not compute what the model does.
        """
        assert self._pipelined is not None  # wrapped before
        try:
            self._pipelined.forward_backward(loss, batch, divisor)
        except Refused:
            self._pipelined = None
            raise

    def clip(self, model: "Module", limit: float) -> None:
        """The norm is that over all stages."""
        assert self._pipelined is not None  # wrapped before
        self._pipelined.clip(limit)

    def updated(self, model: "Module", optimizer: Any) -> None:
        """Count what was sent for it."""
        assert self._pipelined is not None  # wrapped before
        self._pipelined.updated()

    def report(self) -> dict[str, Any]:
        """Stages, micro-batches, the idle share that these imply, and bytes sent per update."""
        return {} if self._pipelined is None else self._pipelined.report()
