"""What tuner and trial tell each other: one struct for each message, told apart by its name.

Times are wall time unless said otherwise; ``_ns`` are nanoseconds, ``_s`` seconds, ``_ms`` milliseconds.
Several ranks answer one by one; what is made of their answers has every worker's own in ``ranks``.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.tuners.supervision.failures import Failure
from advisor.tuners.trial.spec import Target, write_json

MAX_OUTCOME = 16 * 2**20  # bytes; more than that is not read


@dataclass(frozen=True)
class Slot:
    """A few consecutive steps of one arm.

    ``step_s`` holds wall seconds per step. ``work`` is what one step does, in samples where they can
    be counted and in steps otherwise.
    """

    step_s: tuple[float, ...]
    work: float = 1.0
    cpu_s: float = 0.0
    other_cpu_s: float = 0.0
    throttled_s: float = 0.0
    flags: tuple[tuple[str, int], ...] = ()

    @property
    def mean_s(self) -> float:
        """Mean wall seconds of a step."""
        return sum(self.step_s) / len(self.step_s)

    @property
    def cpu_seconds_per_unit(self) -> float:
        """CPU seconds of the process per unit of work."""
        return self.cpu_s / len(self.step_s) / self.work

    @property
    def seconds_per_unit(self) -> float:
        """Wall seconds per unit of work: the mean, so that several optimizers' periods count whole."""
        return self.mean_s / self.work


class Message(msgspec.Struct, frozen=True, tag_field="message"):
    """Anything that one side tells the other."""


# What the tuner says


class MeasureSlot(Message, frozen=True):
    """Run ``drop`` steps unmeasured, then measure ``steps``; answered by ``SlotMeasured``.

    ``keep`` are flags that do not set a step apart. ``config`` holds live knobs to switch to before. After
    ``limit_s`` it ends with the steps it has. An ``exact`` one takes just so many, whatever their flags and
    kind.
    """

    steps: int
    drop: int
    keep: tuple[str, ...]
    config: dict[str, int | str] | None
    limit_s: float
    exact: bool


class Present(Message, frozen=True):
    """The program's own settings, observed in its first run. Not answered."""

    values: dict[str, int | str]


class TellFacts(Message, frozen=True):
    """Tell everything that the hooks have seen so far; answered by ``Facts``."""


class Stop(Message, frozen=True):
    """End now; answered by ``TrialOutcome``."""


class Observe(Message, frozen=True):
    """Watch for ``seconds`` and ``steps`` clean steps, ``limit_s`` at most; answered by ``Observed``.

    An ``exact`` one takes just ``steps`` steps, clean or not.
    """

    seconds: float
    steps: int
    limit_s: float
    exact: bool = False


class Inspect(Message, frozen=True):
    """Look closely at ``steps`` steps, ``limit_s`` at most unless ``exact``; answered by ``Inspected``."""

    steps: int
    limit_s: float
    exact: bool = False


class Record(Message, frozen=True):
    """Record ``steps`` steps into the file ``path``; answered by ``Recorded``.

    With input shapes and types where ``shapes``, with the user's lines where ``places``.
    """

    path: str
    steps: int
    shapes: bool
    places: bool


class Omit(Message, frozen=True):
    """Leave one part of every step out from now on (``None``: nothing); answered by ``Omitted``."""

    part: str | None


class Probe(Message, frozen=True):
    """Cost out the loader; answered by ``Probed``."""


class TimeGraph(Message, frozen=True):
    """Time an evaluation without its graph; answered by ``GraphShares``."""


class MeasureRates(Message, frozen=True):
    """Measure what the machine can do, for ``limit_s`` at most; answered by ``MeasuredRates``."""

    limit_s: float


class TimeAttention(Message, frozen=True):
    """Time torch's fused attention at ``shapes`` with ``dtypes``; answered by ``AttentionTimes``."""

    device: str
    limit_s: float
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str | None, ...]


# What the trial answers


class Phase(Message, frozen=True):
    """What the process is at (``start``, ``compile``, ``steps``).

    The first one has its ``session`` (of the operating system): what follows is the target's.
    """

    name: str
    session: int | None = None


class FirstStep(Message, frozen=True):
    """The first step was closed, ``startup_s`` after the start."""

    startup_s: float


class RankSteps(msgspec.Struct, frozen=True):
    """What one rank's own slot took: all its steps together, and their parts by name."""

    wall_ns: int
    phases_ns: dict[str, int]


class SlotMeasured(Message, frozen=True):
    """A slot.

    Attributes:
        wall_ns: Of each step that counts.
        cpu_ns: CPU time of the process in them.
        phases_ns: Their parts, all steps together.
        flags: How many steps were set apart, by what was in them; ``throttled`` counts all steps.
        flagged_ns: Of each step set apart.
        all_flagged: No step was clean: those that count are the ones set apart.
        kept: Places in ``wall_ns`` of steps with a flag that was to be kept.
        loader_samples: That loaders gave.
        root_samples: That models were given.
        other_cpu_s: CPU time of other processes on the machine.
        own_cpu_s: CPU time of the process and its descendants.
        throttled_s: In which the quota of the cgroup held it up.
        applied: Knobs that took effect.
        refused: Knobs that did not, with the reason.
        unanswered: Knobs that did neither.
        ranks: Of several workers, one each.
    """

    wall_ns: tuple[int, ...] = ()
    cpu_ns: int = 0
    phases_ns: dict[str, int] = {}
    flags: dict[str, int] = {}
    flagged_ns: tuple[int, ...] = ()
    all_flagged: bool = False
    kept: tuple[int, ...] = ()
    loader_samples: int = 0
    root_samples: int = 0
    other_cpu_s: float = 0.0
    own_cpu_s: float = 0.0
    throttled_s: float = 0.0
    applied: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    unanswered: tuple[str, ...] = ()
    ranks: tuple[RankSteps, ...] = ()

    @property
    def input_wait(self) -> float | None:
        """Share (0 to 1) of the steps that waited for data; ``None`` where no parts were timed."""
        wall = sum(self.wall_ns)
        return min(1.0, self.phases_ns.get("input_wait", 0) / wall) if self.phases_ns and wall else None

    @property
    def slot(self) -> Slot:
        """The numbers that comparisons use; of other load the part of the steps that count."""
        counted, apart = sum(self.wall_ns), 0 if self.all_flagged else sum(self.flagged_ns)
        share = counted / max(1, counted + apart)
        samples = self.loader_samples or self.root_samples
        return Slot(
            step_s=tuple(value / 1e9 for value in self.wall_ns),
            work=samples / (len(self.wall_ns) or 1) if samples else 1.0,
            cpu_s=self.cpu_ns / 1e9,
            other_cpu_s=share * self.other_cpu_s,
            throttled_s=share * self.throttled_s,
            flags=tuple(sorted(self.flags.items())),
        )


class Facts(Message, frozen=True):
    """What the hooks have seen, and the losses of all updates."""

    profile: Profile
    losses: tuple[float, ...] = ()
    ranks: "tuple[Facts, ...]" = ()


class Observed(Message, frozen=True):
    """Steps that were watched.

    Attributes:
        wall_ns: Of each step.
        cpu_ns: CPU time of the process in all of them.
        input_ns: Of each step, how long it waited for input.
        flags: What was in steps that are not clean, by their place.
        phases_ns: Parts of the clean steps together; of all where none is clean.
        all_flagged: No step is clean.
        seconds: All of it.
        other_cpus: CPUs that other processes kept busy, on average.
        throttled: Periods of the cgroup's quota, and those that held it up: before and after.
    """

    wall_ns: tuple[int, ...]
    cpu_ns: int
    input_ns: tuple[int, ...]
    flags: dict[int, tuple[str, ...]]
    phases_ns: dict[str, int]
    all_flagged: bool
    seconds: float
    other_cpus: float
    throttled: tuple[tuple[int, int], tuple[int, int]]


class Inspected(Message, frozen=True):
    """So many steps were looked at closely; what was seen is in the facts."""

    steps: int


class Recorded(Message, frozen=True):
    """A trace was written to ``path``: of each step its time, what was in it, and its parts."""

    path: str
    wall_ns: tuple[int, ...]
    flags: tuple[tuple[str, ...], ...]
    phases_ns: tuple[dict[str, int], ...]
    ranks: "tuple[Recorded, ...]" = ()


class Omitted(Message, frozen=True):
    """Why the part cannot be left out; ``None`` when it is, from the next step on."""

    reason: str | None


class Probed(Message, frozen=True):
    """The loader was costed out; what was seen is in the facts."""


class GraphShares(Message, frozen=True):
    """What part of an evaluation's forward recording its graph takes, measured several times (0 to 1)."""

    shares: tuple[float, ...]


class MeasuredRates(Message, frozen=True):
    """What the machine can do."""

    rates: Rates


class AttentionTimes(Message, frozen=True):
    """Time of one forward that records its graph at each shape; ``None`` where it could not be had."""

    ms: tuple[float | None, ...]


class Failed(Message, frozen=True):
    """It failed before the target's first line."""

    failure: Failure


class Compiled(msgspec.Struct, frozen=True):
    """What torch.compile did.

    Attributes:
        seconds: Spent.
        compiled: Frames of Python that were compiled.
        graphs: Made.
        breaks: Places at which a graph was broken.
        recompiles: After warm-up.
        failures: Why frames fell back.
    """

    seconds: float = 0.0
    compiled: int = 0
    graphs: int = 0
    breaks: int = 0
    recompiles: int = 0
    failures: tuple[str, ...] = ()


class TrialOutcome(Message, frozen=True):
    """What a trial leaves: the content of ``outcome.json``.

    Attributes:
        state: It came to its own end, was told to stop, or failed.
        failure: Why it failed.
        applied: Knobs that took effect.
        refused: Knobs that did not, with the reason.
        unanswered: Knobs that did neither.
        steps: That were closed.
        startup_s: From the start to the end of the first step; ``None`` without one.
        compile: What torch.compile did.
        losses: Of all updates; what is not finite stays so.
        grad_norms: Before each update of the first optimizer, where they were asked for.
        peak_bytes: Peak memory of the process.
        device_peak_bytes: Peak memory that torch allocated on the device, where one was used.
        files: That it wrote.
        connections: ``host:port`` outside this machine that it reached out to.
        processes: That it started.
        report: What the strategy knows at the end.
        ranks: Of several workers, the report of each.
    """

    state: Literal["ended", "stopped", "failed"]
    failure: Failure | None = None
    applied: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    unanswered: tuple[str, ...] = ()
    steps: int = 0
    startup_s: float | None = None
    compile: Compiled = Compiled()
    losses: tuple[float, ...] = ()
    grad_norms: tuple[float, ...] = ()
    peak_bytes: int = 0
    device_peak_bytes: int | None = None
    files: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    report: dict[str, Any] = {}
    ranks: tuple[dict[str, Any], ...] = ()

    @property
    def highest_bytes(self) -> int:
        """Peak memory of the device where one was used, else of the process."""
        return self.device_peak_bytes or self.peak_bytes

    def write(self, path: Path) -> None:
        """Write ``outcome.json``."""
        write_json(path, self)

    @classmethod
    def read(cls, path: Path) -> "TrialOutcome | None":
        """The outcome a trial left, or ``None`` when there is none that can be read."""
        try:
            with path.open("rb") as stream:
                return msgspec.convert(json.loads(stream.read(MAX_OUTCOME)), cls, strict=False)
        except (OSError, ValueError, msgspec.ValidationError):
            return None


# Between the tuner and the warm process that trials are forked from


class Load(Message, frozen=True):
    """Import torch and the target; answered by ``Loaded`` or ``Failed``."""

    target: Target


class Loaded(Message, frozen=True):
    """It is there, in the process ``pid``; ``why_not`` it cannot be forked, ``None`` where it can."""

    pid: int
    why_not: str | None


class Fork(Message, frozen=True):
    """Fork a trial; ``spec`` is the file that tells it what to do. Three descriptors come with it."""

    spec: str


# Between the tuner and the processes of a launcher's command (``arming/sitecustomize.py``)


class Hello(Message, frozen=True):
    """A process that may be the target has come: what it runs, and its environment's word on ranks.

    ``name`` is as it was given, ``file`` the absolute path, empty where a module has none below ``cwd``.
    """

    pid: int
    kind: str
    name: str
    file: str
    args: tuple[str, ...]
    cwd: str
    variables: dict[str, str | None]


class Arm(Message, frozen=True):
    """Be the trial of the file ``spec``; the command is ``age_s`` old, ``paths`` are where advisor is."""

    spec: str
    age_s: float
    paths: tuple[str, ...]


class Leave(Message, frozen=True):
    """Go on untouched."""


# Between the tuner and a process in which numbers are compared (``relearning.py``)


class KeepState(Message, frozen=True):
    """Make a step under ``config``, keep the state after it, and record the batches of the next ``steps``.

    Answered by ``StateKept``.
    """

    config: dict[str, int | str]
    steps: int


class StateKept(Message, frozen=True):
    """The state is kept, in ``host_bytes``; ``problem`` says why not, ``None`` if it is."""

    problem: str | None
    host_bytes: int = 0
    batches: int = 0


class Relearn(Message, frozen=True):
    """From the kept state, make ``steps`` steps under ``config`` on the recorded batches.

    Where they are not 0, with other random numbers and another order of the batches by ``seed``, and with
    weights moved by ``nudge``. Answered by ``Relearned``, once the state and ``base`` are back.
    """

    config: dict[str, int | str]
    base: dict[str, int | str]
    steps: int
    seed: int
    nudge: int


class Relearned(Message, frozen=True):
    """Steps from the kept state.

    Attributes:
        losses: Of each update.
        grad_norms: Before each update of the first optimizer.
        marks: Of each step, what has to be the same where a loop repeats itself: its kind, the order of its
            updates, its backwards, the learning rates.
        flags: What was in each step, but for compilation.
        problem: What did not come back afterwards; ``None`` if all did.
        refused: Knobs that did not take effect, with the reason.
        unanswered: Knobs that neither did nor said why not.
        peak_bytes: Highest memory of the process until now, less what keeping the state takes.
    """

    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    marks: tuple[str, ...]
    flags: tuple[tuple[str, ...], ...]
    problem: str | None
    refused: dict[str, str]
    unanswered: tuple[str, ...]
    peak_bytes: int


class ReleaseState(Message, frozen=True):
    """Forget the kept state: the program goes on from it, with the recorded batches. Not answered."""


ANY = (
    MeasureSlot | Present | TellFacts | Stop | Observe | Inspect | Record | Omit | Probe | TimeGraph
    | MeasureRates | TimeAttention
    | Phase | FirstStep | SlotMeasured | Facts | Observed | Inspected | Recorded | Omitted | Probed
    | GraphShares | MeasuredRates | AttentionTimes | Failed | TrialOutcome
    | Load | Loaded | Fork | Hello | Arm | Leave
    | KeepState | StateKept | Relearn | Relearned | ReleaseState
)  # fmt: skip
"""Every message, for reading."""
