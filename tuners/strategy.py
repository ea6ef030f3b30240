"""The contract of a strategy: how several processes train one model together.

A strategy is one file in ``strategies/`` that defines one subclass of `Strategy`. In the space it is a
value of the knob ``strategy``. The reference loop (``advisor.tuners.trial.loop``) calls its methods in each
process; what a strategy does not define is done as a process alone would do it.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Semantics
from advisor.tuners.place import HERE, Place

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer

    from advisor.workloads.workload import Workload

Build = Callable[[Iterable["Parameter"]], "Optimizer"]
Loss = Callable[["Module", Any], "Tensor"]


class Strategy:
    """One way of training with several processes.

    Class attributes:
        semantics: What it may do to the numbers; ``rounding`` for those that compute the same update in
            another order.
        splits_batch: Every worker takes its share of each batch. Otherwise all of them are given whole ones.
        losses: Whose loss is that of the whole batch: the ``mean`` of all workers, the ``first`` or the
            ``last`` worker's.
        written: How code in an advice writes it where that is not its id; in lower case.
    """

    semantics: ClassVar[Semantics] = Semantics.ROUNDING
    splits_batch: ClassVar[bool] = True
    losses: ClassVar[Literal["mean", "first", "last"]] = "mean"
    written: ClassVar[tuple[str, ...]] = ()

    def meaning(self, config: Config) -> Semantics:
        """``semantics`` under these settings, for strategies whose settings change what is learnt."""
        return self.semantics

    def check(self, profile: Profile, ranks: int) -> None:
        """Raise ``Refused`` with the reason when it cannot train this program on so many ranks.

        Called in the parent, without torch: from facts alone.
        """

    def servers(self, config: Config) -> int:
        """Processes beside the workers that serve them."""
        return 0

    def change(self) -> Change:
        """What a user writes to adopt it."""
        raise NotImplementedError

    # In every worker, in this order; all processes have met (``HERE.join()``) and hold the same weights.

    def wrap(self, model: "Module") -> "Module":
        """The model to call and train: wrapped, sharded in place, or the part of it that is this worker's.

        Raises:
            Refused: The model is none that this strategy can train; every worker must come to the same.
        """
        return model

    def optimizer(self, build: Build, model: "Module") -> "Optimizer":
        """The optimizer whose ``step`` updates what ``wrap`` returned."""
        return build(model.parameters())

    def micro_batch(self, model: "Module", last: bool) -> AbstractContextManager[Any]:
        """Around forward and backward of one micro-batch; ``last`` is the one before an update."""
        return nullcontext()

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        """Add the gradients of one micro-batch; ``divisor`` is what its loss is divided by.

        Args:
            loss: Computes the user's loss, checked, of a model on a batch.
            model: What ``wrap`` returned.
            batch: This worker's share of the micro-batch, on the device.
            divisor: Micro-batches per update, for means over equal parts.
        """
        value = loss(model, batch)
        (value / divisor if divisor != 1 else value).backward()

    def clip(self, model: "Module", limit: float) -> None:
        """Limit the norm of all gradients together."""
        import torch

        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)

    def updated(self, model: "Module", optimizer: "Optimizer") -> None:
        """An update was made and gradients are cleared."""

    def epoch(
        self, model: "Module", optimizer: "Optimizer", batches: int | None = None
    ) -> AbstractContextManager[Any]:
        """Around one pass over this worker's batches, ``batches`` of them; ``None`` where that is not known.

        Workers may differ in their number (torch's ``Join``).
        """
        return nullcontext()

    # In every server.

    def serve(self, workload: "Workload") -> None:
        """Serve the workers until the process is ended from outside."""
        raise NotImplementedError

    def report(self) -> dict[str, Any]:
        """What this worker knows at the end, as JSON holds it: bytes per step, staleness, ...; may be asked
        at any step border and must not need other workers to do anything."""
        return {}

    @property
    def place(self) -> Place:
        """Where this process stands."""
        return HERE.place

    def setting(self, name: str, default: int | str) -> int | str:
        """The value of a knob in this trial's configuration."""
        return HERE.config.get(name, default)
