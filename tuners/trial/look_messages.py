"""What is asked of a process that is looked at closely, and what it answers."""

import msgspec

from advisor.profiles.facts.rates import Rates
from advisor.tuners.trial.messages import Message


class Observe(Message, frozen=True):
    """Watch for ``seconds`` and ``steps`` clean steps, ``limit_s`` at most; answered by ``Observed``.

    An ``exact`` one takes just ``steps`` steps, clean or not.
    """

    seconds: float
    steps: int
    limit_s: float
    exact: bool = False


class Inspect(Message, frozen=True):
    """Look closely at ``steps`` steps, ``limit_s`` at most unless ``exact``; answered by ``Inspected``.

    In ``sampled`` steps before them only hot lines are met.
    """

    steps: int
    limit_s: float
    exact: bool = False
    sampled: int = 0


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
        other_cpus: CPUs that other processes kept busy, on average; ``None`` where it was too short to tell.
        throttled: Periods of the cgroup's quota, and those that held it up: before and after.
        company: CPUs of the training thread, of other Python threads and of child processes, by name.
    """

    wall_ns: tuple[int, ...]
    cpu_ns: int
    input_ns: tuple[int, ...]
    flags: dict[int, tuple[str, ...]]
    phases_ns: dict[str, int]
    all_flagged: bool
    seconds: float
    other_cpus: float | None
    throttled: tuple[tuple[int, int], tuple[int, int]]
    company: dict[str, tuple[tuple[str, float], ...]] = msgspec.field(default_factory=dict)


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
