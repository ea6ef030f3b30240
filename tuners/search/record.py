"""One trial as the search sees it, before it is written anywhere."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Cause, Failure
from advisor.tuners.trial.messages import Slot, TrialOutcome

Stage = Literal["baseline", "screen", "search", "confirm", "ablate"]
State = Literal["complete", "pruned", "failed"]
Process = Literal["own", "shared"]


@dataclass
class TrialRecord:
    """One configuration measured.

    ``against_baseline`` is a log ratio; ``step_s`` and ``rate`` come from the trial's own slots.
    ``efficiency`` is what one sample is worth beside one of the baseline's batch, where that is known.
    ``confirmed_s`` and ``confirmed_launches`` are seconds of the run and processes it had started when the
    pairs of a confirmation had confirmed it; ``None`` where a longer run took that back.
    """

    number: int
    config: Configuration
    stage: Stage
    process: Process = "own"
    state: State = "complete"
    cause: Cause | None = None
    message: str = ""
    marks: list[str] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    against_baseline: Estimate | None = None
    outcome: TrialOutcome | None = None
    applied: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    startup_s: float | None = None
    confirmed_s: float | None = None
    confirmed_launches: int | None = None
    efficiency: float | None = None
    log: str | None = None

    def begin_again(self, failure: Failure) -> None:
        """Forget what was measured before something from outside cut it off, but not that it was."""
        self.slots, self.applied, self.refused, self.outcome, self.marks = [], [], {}, None, []
        self.cut_off(failure)

    def cut_off(self, failure: Failure) -> None:
        """Mark that something from outside cut a measurement off, which was then taken once more."""
        mark = f"measured once more: {failure.cause}, {failure.message}"
        if mark not in self.marks:
            self.marks.append(mark)


class Recorder(Protocol):
    """Where finished trials go."""

    def begin(self, trial: TrialRecord, score: float) -> None:
        """A trial is about to run; ``score`` is the best log ratio so far."""

    def record(self, trial: TrialRecord, *, asked: int | None = None, value: float | None = None) -> None:
        """Keep one finished trial; when this returns it is acknowledged.

        Args:
            trial: What was measured.
            asked: Optuna's number of the trial.
            value: Its score, a finite log ratio: what Optuna is told where it was asked.
        """
