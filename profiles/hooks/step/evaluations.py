"""Evaluations between training steps: how many, how long, where, and whether they record a graph."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.purpose import judges
from advisor.profiles.hooks.tensors import each_tensor, leading_sizes
from advisor.profiles.hooks.user_lines import user_location

if TYPE_CHECKING:
    from torch.nn import Module

LOOKED_AT = 16  # outputs that are looked at
PAIRS = 7  # of timed forwards, with a graph and without


class Evaluations:
    """Is told of every forward in evaluation. Those between two steps are one evaluation.

    ``seconds`` counts since the first step: from the end of the update before the evaluation to the end of
    its last forward, loaders, losses and metrics between them included and what was ``left_out`` (saves)
    not. An evaluation of a single forward, or one inside a training step (a teacher, a frozen generator),
    counts that forward alone. What follows its last forward is not in it: it cannot be told from the
    preparation of the next step.

    Attributes:
        trained_at: Border of the clock after which a root last ran in training.
        ever_trained: Whether one ever did.
    """

    def __init__(self, clock: Clock) -> None:
        import torch

        self._is_grad_enabled = torch.is_grad_enabled
        self._clock = clock
        self._left_out_ns = 0
        self._left_out_at = 0  # the border since which that was
        self._group: int | None = None
        self._first_step = 0
        self._last_ns = 0
        self._lead_ns: int | None = None
        self._looks = self._rows_looks = LOOKED_AT
        self._rows = self._forwards = 0
        self._in_training = True
        self._graph: bool | None = None
        self._location: Location | None = None
        self._judges: bool | None = None
        self._delivered = 0
        self.trained_at = -1
        self.ever_trained = False
        self.count = 0
        self.seconds = 0.0

    @property
    def trained(self) -> bool:
        """Whether a root has run in training since the last update."""
        return self.trained_at == self._clock.borders

    def leave_out(self, spent_ns: int) -> None:
        """This much time since the last update was something else."""
        self._left_out_ns = self._left_out() + spent_ns
        self._left_out_at = self._clock.borders

    def look(self, module: "Module", output: Any) -> None:
        """At what a module in evaluation returned."""
        if self.count:
            self._forwards += 1
            self._in_training &= module.training
            if self._judges is None:
                self._judges = judges()
        if self._rows_looks:
            self._rows_looks -= 1
            self._rows += next(iter(leading_sizes(output)), 0)
        if self._looks and not module.training:
            self._looks -= 1
            recorded = self._is_grad_enabled() and any(t.requires_grad for t in each_tensor(output))
            self._graph = bool(self._graph) or recorded
        if self._location is None:
            self._location = user_location()

    def ran(self, spent_ns: int) -> None:
        """A forward in evaluation ended, which took ``spent_ns``."""
        clock = self._clock
        if clock.first_tick_ns is None:
            return
        now = clock.now_ns()
        if clock.steps != self._group:
            self._begin_group(now - spent_ns)
            spent = spent_ns
        elif self._lead_ns is None or self.trained:
            self._lead_ns = None
            spent = spent_ns
        else:
            spent = now - self._last_ns + self._lead_ns - self._left_out()
            if clock.loader_samples > self._delivered:  # between two of its forwards: it has a loader
                self._judges = True
            self._lead_ns = self._left_out_ns = 0
        self._last_ns = now
        self.seconds += spent / 1e9

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``; nothing is called an evaluation where nothing else was seen."""
        if not self.ever_trained:
            return {}
        every = None
        if self._group is not None and self.count > 1:
            every = (self._group - self._first_step) / (self.count - 1)
        return {
            "evaluation_s": self.seconds,
            "evaluations": self.count,
            "evaluation_every": every,
            "evaluation_records_graph": self._graph,
            "evaluation_location": self._location,
            "evaluation_forwards": self._forwards / self.count if self.count else None,
            "evaluation_rows": self._rows / looked if (looked := LOOKED_AT - self._rows_looks) else None,
            "evaluation_in_training_mode": self._in_training if self._forwards else None,
            "evaluation_judges": self._judges,
        }

    def _begin_group(self, began_ns: int) -> None:
        self._group = self._clock.steps
        self._delivered = self._clock.loader_samples
        if not self.count:
            self._first_step = self._group
        self.count += 1
        self._lead_ns = None
        border_ns = self._clock.border_ns
        if border_ns is not None and not self.trained:
            self._lead_ns = began_ns - border_ns - self._left_out()
            self._left_out_ns = 0

    def _left_out(self) -> int:
        return self._left_out_ns if self._left_out_at == self._clock.borders else 0


@dataclass(frozen=True)
class GraphedEvaluation:
    """A forward in evaluation that could record a graph, kept so that it can be timed without one."""

    module: "Module"
    function: Callable[..., Any]
    args: Any
    kwargs: Any

    def shares(self) -> list[float]:
        """Shares of the forward's time that recording the graph takes, of several pairs side by side.

        To be called between two steps of a process that only times count of; modules are left as they were.
        """
        import torch

        modes = {member: member.training for member in self.module.modules()}
        self.module.eval()
        try:
            shares = []
            for _ in range(PAIRS + 1):
                with torch.enable_grad():
                    graphed = self._timed()
                with torch.inference_mode():
                    plain = self._timed()
                shares.append(1 - plain / graphed)
            return shares[1:]  # the first pair warms up
        finally:
            for member, training in modes.items():
                member.training = training

    def _timed(self) -> float:
        import torch

        began = perf_counter()
        self.function(*self.args, **self.kwargs)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return perf_counter() - began
