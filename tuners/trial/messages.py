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
from advisor.tuners.supervision.failures import Failure
from advisor.tuners.trial.spec import write_json

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


class GoOn(Message, frozen=True):
    """Load the first batch now; answers ``Ready``."""


class Stop(Message, frozen=True):
    """End now; answered by ``TrialOutcome``."""


# What the trial answers


class Phase(Message, frozen=True):
    """What the process is at (``start``, ``compile``, ``steps``).

    The first one has its ``session`` (of the operating system): what follows is the target's.
    """

    name: str
    session: int | None = None


class Arrived(Message, frozen=True):
    """The program has come to where it may be paused for the first time."""


class Ready(Arrived, frozen=True):
    """It is about to make its first iterator of a loader, and waits for ``GoOn`` there."""


class FirstStep(Arrived, frozen=True):
    """The first step was closed, ``startup_s`` after the start, less the time that it was told to wait.

    ``cpu_s`` is the CPU time of the process until then, without its children's.
    """

    startup_s: float
    cpu_s: float = 0.0


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
        other_cpu_s: CPU time of other processes on the CPUs that it may use.
        own_cpu_s: CPU time of the process and its descendants.
        throttled_s: In which the quota of the cgroup held it up.
        applied: Knobs that took effect.
        refused: Knobs that did not, with the reason.
        unanswered: Knobs that did neither.
        loader_start_s: That the latest switch took to start iterators of loaders, up to their first batches.
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
    loader_start_s: float = 0.0
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
        loaded: Checkpoints that it resumed from, where it came to no step.
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
    loaded: tuple[str, ...] = ()
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
