"""What a user may ask of a run, after it has been checked: the options of ``tune`` as one value."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from advisor.base.errors import UsageError
from advisor.base.unit import Unit

Value = int | str
Objective = Literal["goodput", "throughput", "memory", "latency", "requests"]

OF_REQUESTS = ("latency", "requests")  # objectives of a model that is trained already
MAX_TRIALS = 2_000
GRACE = 0.2  # of the budget, by which a run may exceed it to end what it has begun
MAX_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class TargetRequest:
    """What to run.

    Attributes:
        kind: ``script`` and ``workload`` name a file, ``module`` a module; ``objects`` are shipped,
            ``exec`` is a launcher's command.
        name: The file as given, or the module.
        args: Arguments of the script.
        payload: Packed objects for ``objects``.
    """

    kind: Literal["script", "module", "workload", "objects", "exec"]
    name: str
    args: tuple[str, ...] = ()
    payload: bytes | None = None

    @property
    def program(self) -> Literal["script", "workload", "objects"]:
        """What kind of program it is: modules and those that a launcher starts are scripts."""
        return "script" if self.kind == "module" or self.kind == "exec" else self.kind


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of ``tune`` (interface.md). Times in seconds, sizes in bytes, shares from 0 to 1.

    Attributes:
        knobs: Knobs named by the user, with the values named or ``None`` for the knob's own choices;
            empty means every knob that applies.
        fixed: Values for baseline and candidates alike.
        ranks: Numbers of workers to try, or the one to profile with; empty for what the machine has.
        allow_writes: Every launch may change files that exist where the system cannot keep its writes apart.
        out: Folder of the report; ``None`` writes none.
        storage: A storage URL; ``None`` keeps the study in memory of this call alone.
        max_loss: Of the user's metric, relative, that a faster form of a trained model may have.
        latency_limit_s: Seconds that a request may take from its arrival on; ``None`` for no limit.
        on: Which engine has benches on further nodes; ``here`` for none.
        price_per_hour: Of the machine, in any currency.
        command: What the user typed, for the report.

    Raises:
        UsageError: A number is out of range, or settings contradict each other.
    """

    target: TargetRequest
    out: Path | None = None
    storage: str | None = None
    study: str | None = None
    resume: bool = False
    budget_s: float = 600.0
    trials: int | None = None
    objective: Objective = "goodput"
    keep_batch: bool = False
    allow_training: bool = False
    allow_writes: bool = False
    knobs: dict[str, list[Value] | None] = field(default_factory=dict)
    fixed: dict[str, Value] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    device: str = "auto"
    steps: int | None = None
    warmup: int | None = None
    steps_planned: int | None = None
    max_memory: int | None = None
    max_batch: int | None = None
    min_gain: float = 0.02
    confidence: float = 0.99
    seed: int = 0
    on: str = "here"
    price_per_hour: float | None = None
    max_loss: float = 0.01
    latency_limit_s: float | None = None
    command: tuple[str, ...] = ()

    @property
    def grace_s(self) -> float:
        """By which the budget may be exceeded."""
        return GRACE * self.budget_s

    @property
    def unit(self) -> Unit:
        """What the run is counted in."""
        return Unit.REQUEST if self.objective in OF_REQUESTS else Unit.STEP

    def __post_init__(self) -> None:
        if self.budget_s <= 0:
            raise UsageError("the budget must be positive", where="--budget", hint="`--budget 10m`")
        if self.trials is not None and not self.trials >= 1:
            raise UsageError(f"{self.trials} is not in the range x>=1.", where="--trials")
        if self.trials is not None and self.trials > MAX_TRIALS:
            raise UsageError(
                f"{MAX_TRIALS} is the limit", where="--trials", hint="bound the time: `--budget 10m`"
            )
        if not 0 <= self.min_gain < 1:
            raise UsageError("--min-gain lies between 0% and 100%", where="--min-gain", hint="`2%` or `0.02`")
        if not 0 < self.max_loss < 1:
            raise UsageError("--max-loss lies between 0% and 100%", where="--max-loss", hint="`1%` or `0.01`")
        if self.latency_limit_s is not None:
            self._check_limit(self.latency_limit_s)
        if not 0.5 < self.confidence < 1:
            raise UsageError("--confidence must lie between 0.5 and 1", where="--confidence", hint="`0.95`")
        if not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"the seed must be 0 to {MAX_SEED}", where="--seed")
        if self.price_per_hour is not None and not 0 <= self.price_per_hour < math.inf:
            raise UsageError("a price is a number from 0 up", where="--price", hint="`--price 2.5`")
        for name in ("steps", "warmup", "steps_planned", "max_memory", "max_batch"):
            value = getattr(self, name)
            if value is not None and value < (0 if name == "warmup" else 1):
                raise UsageError(f"{value} is too small", where=f"--{name.replace('_', '-')}")
        for name in self.fixed.keys() & self.knobs.keys():
            raise UsageError(
                f"{name} is fixed to {self.fixed[name]} and also to be tried",
                where=f"--fix {name}, --knob {name}",
                hint="leave one of the two out",
            )

    def _check_limit(self, limit_s: float) -> None:
        where = "--latency-limit"
        if not 0 < limit_s < math.inf:
            raise UsageError("a latency limit is more than zero", where=where, hint=f"`{where} 20ms`")
        if self.unit is not Unit.REQUEST:
            raise UsageError(
                f"--latency-limit is for requests, and the objective is {self.objective}",
                where=where,
                hint="`--objective requests`, or `latency`",
            )


def objective_of_unit(objective: str) -> Objective:
    """An objective under which a program is counted in the same unit as under one that a result names."""
    match objective:
        case "latency":
            return "latency"
        case "requests":
            return "requests"
    return "goodput"


class Progress(Protocol):
    """Where a run says what it does. Nothing here may take long: a measurement may be waiting."""

    def begin(self, text: str) -> None:
        """What is about to happen, and its limit: the first line."""

    def say(self, text: str) -> None:
        """A stage has begun or ended."""

    def part(self, text: str) -> None:
        """A part of the stage begins, one of many alike."""

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        """A trial begins: what is tried, the best so far with its interval, seconds left."""

    def waiting(self, what: str, seconds: float) -> None:
        """Still waiting; called about twice a second."""

    def warn(self, text: str) -> None:
        """Something changes the meaning of the result."""


Clock = Callable[[], float]
