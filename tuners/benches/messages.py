"""What is said to a bench and what it answers: one struct for each message, one message a line of JSON.

Each question but ``Teach``, ``Ping`` and ``Close`` has a ``key`` that its answer repeats. To measure has no
effect beside the answer: what was lost with a bench is asked of another one, and counts once.
"""

import json
from typing import cast

import msgspec

from advisor.base.settings import Settings
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.gate import Learning
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.supervision.failures import Failure
from advisor.tuners.trial.messages import Slot, TrialOutcome


class NotUnderstood(Exception):
    """A line that is no message: of another version, or written by somebody else."""


class Said(msgspec.Struct, frozen=True, tag_field="said"):
    """Anything that one side says."""


# What the tuner says


class Open(Said, frozen=True):
    """Open the target and run it unchanged; answered by ``Opened`` or ``NotOpened``.

    ``folder`` is the working directory, which must be there.
    """

    settings: Settings
    folder: str


class Teach(Said, frozen=True):
    """What holds from now on, as the tuner's own arena and races have it. Not answered.

    Attributes:
        present: The program's own setting of every knob; the tuner's space governs.
        switches: As of ``Arena``.
        limit_bytes: As of ``Race``.
        least: As of ``Race``.
    """

    present: dict[str, Value]
    switches: tuple[str, ...]
    limit_bytes: int | None
    least: float


class RunRace(Said, frozen=True):
    """Race a candidate against the incumbent; answered by ``Raced`` or ``NotMeasured``.

    ``left_s`` are seconds after which no further look is taken, ``bar`` and ``look`` are as of ``Race.run``.
    """

    key: int
    number: int
    incumbent: dict[str, Value]
    candidate: dict[str, Value]
    bar: float
    left_s: float
    look: int | None = None


class RunInstances(Said, frozen=True):
    """Measure pairs of fresh processes in this order; answered by ``Paired`` or ``NotMeasured``."""

    key: int
    instances: tuple[Instance, ...]


class RunRemoval(Said, frozen=True):
    """Measure what a winner gains over itself without one change; ``Removed`` or ``NotMeasured``.

    Args as of ``ablate.contribution``.
    """

    key: int
    number: int
    reduced: dict[str, Value]
    winner: dict[str, Value]
    detectable: float
    level: float
    left_s: float
    fewest: int = 1


class LearningRun(msgspec.Struct, frozen=True):
    """A fresh process of which the first steps are compared; as of ``gate.learn``."""

    config: dict[str, Value]
    seed_offset: int = 0
    nudge: int = 0


class RunLearning(Said, frozen=True):
    """Run the first ``steps`` of fresh processes, for their numbers; ``Learnt`` or ``NotMeasured``."""

    key: int
    steps: int
    runs: tuple[LearningRun, ...]


class Ping(Said, frozen=True):
    """Answered by ``Pong``, also while something is measured."""


class Close(Said, frozen=True):
    """End everything. Not answered."""


# What a bench answers


class Opened(Said, frozen=True):
    """The target runs here.

    Attributes:
        fingerprint: Of what makes times comparable (``Machine.fingerprint``).
        described: The machine in words.
        python: Version.
        digest: Of the target's own code.
        step_s: Of a step, unchanged.
        sigma: Spread of one quad's log ratio, of the program against itself.
        startup_s: From starting it to its first step.
        warnings: What the user would have been told.
    """

    fingerprint: str
    described: str
    python: str
    digest: str
    step_s: float
    sigma: float
    startup_s: float
    warnings: tuple[str, ...] = ()


class NotOpened(Said, frozen=True):
    """It does not run here, and why."""

    why: str


class Raced(Said, frozen=True):
    """What came of a race: the estimate over the incumbent, and what goes into the trial's record.

    ``log_ratios`` are those of its last look.
    """

    key: int
    seconds: float
    estimate: Estimate
    input_wait: float | None = None
    pairs: int = 0
    process: str = "own"
    slots: tuple[Slot, ...] = ()
    outcome: TrialOutcome | None = None
    applied: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    marks: tuple[str, ...] = ()
    startup_s: float | None = None
    log: str | None = None
    log_ratios: tuple[float, ...] = ()


class Paired(Said, frozen=True):
    """What pairs gave, in the order asked."""

    key: int
    seconds: float
    duels: tuple[Duel, ...]


class Removed(Said, frozen=True):
    """How much faster the winner is than without the change, and whether time cut that off early."""

    key: int
    seconds: float
    estimate: Estimate
    cut_off: bool = False


class Learnt(Said, frozen=True):
    """The first steps of runs, in the order asked."""

    key: int
    seconds: float
    learnings: tuple[Learning, ...]


class NotMeasured(Said, frozen=True):
    """What was asked failed here.

    ``lost`` are settings of the incumbent that declined in a race, by knob with the reason; ``marks`` what
    had disturbed it before.
    """

    key: int
    seconds: float
    failure: Failure
    lost: dict[str, str] = {}
    marks: tuple[str, ...] = ()
    log: str | None = None


class Pong(Said, frozen=True):
    """The bench is there."""


Answer = Raced | Paired | Removed | Learnt | NotMeasured
Asked = RunRace | RunInstances | RunRemoval | RunLearning
ANY = (
    Open | Teach | RunRace | RunInstances | RunRemoval | RunLearning | Ping | Close
    | Opened | NotOpened | Raced | Paired | Removed | Learnt | NotMeasured | Pong
)  # fmt: skip


def question(asked: Asked) -> str:
    """The same for all that is measured alike, whatever its key, its trial and what time is left for it."""
    same: dict[str, object] = {"key": 0}
    if isinstance(asked, RunInstances):
        same["instances"] = tuple(msgspec.structs.replace(each, number=0) for each in asked.instances)
    elif isinstance(asked, RunRace | RunRemoval):
        same |= {"number": 0, "left_s": 0.0}
    return written(msgspec.structs.replace(asked, **same))


def written(said: Said) -> str:
    """A message as one line; numbers that are not finite stay so."""
    return json.dumps(msgspec.to_builtins(said))


def understood(line: str) -> Said:
    """The message of a line.

    Raises:
        NotUnderstood: It is none.
    """
    try:
        return cast(Said, msgspec.convert(json.loads(line), ANY, strict=False, str_keys=True))
    except (ValueError, msgspec.ValidationError) as error:
        raise NotUnderstood(f"not a message: {error}") from None
