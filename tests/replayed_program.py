"""A training program on paper: what its steps take, what settings make of it, where it fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from builders import a_rich_profile

from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Value
from advisor.tuners.supervision.failures import Failure

Config = Mapping[str, Value]
When = Callable[[Config], bool]
PEAK_BYTES = 2**30
CACHED = 0.1  # of the time that compiling takes, once a process has filled the cache


def where(**values: Value) -> When:
    """Configurations that have all these values."""
    return lambda config: all(config.get(name) == value for name, value in values.items())


def above(**least: int) -> When:
    """Configurations in which all these are larger."""
    return lambda config: all(int(config.get(name, 0)) > value for name, value in least.items())


@dataclass(frozen=True)
class Effect:
    """What some configurations make of the program; those that hold count together.

    Attributes:
        step: Factor of the time of a step.
        memory: Factor of the peak of memory.
        grows_bytes: By which the peak rises with every step.
        loss: Relative error of every loss.
        one_in_fifty: Factor of the time of every fiftieth step more.
        wrong: Relative error of what a model answers.
        saturates: That error is of its kernels alone; their dequantised reference has none.
        refuses: The knob that declines, and why.
        fails: How its process fails.
        after: Steps that it makes under them before that.
        times: Processes that it makes fail; ``None`` for all.
        takes_s: That its failure takes, as one that is noticed by a deadline does.
    """

    when: When
    step: float = 1.0
    memory: float = 1.0
    grows_bytes: int = 0
    loss: float = 0.0
    one_in_fifty: float = 1.0
    wrong: float = 0.0
    saturates: bool = False
    refuses: tuple[str, str] | None = None
    fails: Failure | None = None
    after: int = 0
    times: int | None = None
    takes_s: float = 0.0


@dataclass
class Program:
    """A training program.

    Attributes:
        step_s: Seconds of a step.
        startup_s: From its start to its first step.
        start_cpus: That a process uses until then, on average; ``None`` where that is not known.
        compile_s: Added to that where it is compiled, and a part of it once the cache of that is filled.
        noise: Spread of a step's time, in logarithms.
        between: Spread of that of a whole process.
        parts: Shares of a step (0 to 1) that its phases take, by name; ``input_wait`` is one of them.
        steps: After which it ends by itself.
        loads_late: It makes the first iterator of a loader as its training begins, where it can wait.
        repeats: Its state can be kept, and steps repeated from it.
        seed: Of the noise.
        without: What a step takes with a part left out (``loader``, ``optimizer`` ...), as factors of its
            time; others change nothing. ``None`` for a program that cannot be looked at closely.
        after_without: What it takes once a part was left out and is back.
        ops: Shares of a step that its operators take; one after the other they fill it.
        samples: Of those that answers are judged by, where it is a model that answers.
        feeds_itself: It goes on from what it answered, so a changed one is asked otherwise.
        inputs_once: Each input of it comes once, as in a script that answers one after the other.
        memory: What else is known of its memory, but the peak.
        slower: Factor of all that takes time, starts and compiling too, by the clock.
        load: CPUs that other processes take at a time; a step takes so many times its time more.
        failed: How often each effect has made a process fail.
    """

    effects: Sequence[Effect] = ()
    step_s: float = 0.02
    startup_s: float = 2.0
    start_cpus: float | None = None
    compile_s: float = 20.0
    noise: float = 0.01
    between: float = 0.002
    parts: Callable[[Config], Mapping[str, float]] = lambda config: {}
    steps: int | None = None
    loads_late: bool = True
    repeats: bool = True
    seed: int = 0
    profile: Profile = field(default_factory=a_rich_profile)
    failed: dict[Effect, int] = field(default_factory=dict)
    without: Mapping[str, float] | None = None
    after_without: float = 1.0
    ops: Mapping[str, float] = field(default_factory=lambda: {"aten::mm": 1.0})
    samples: int = 0
    inputs_once: bool = False
    feeds_itself: bool = False
    memory: MemoryUse = field(default_factory=lambda: MemoryUse(0))
    slower: Callable[[float], float] = lambda now: 1.0
    load: Callable[[float], float] = lambda now: 0.0

    def of(self, config: Config) -> list[Effect]:
        """The effects that a configuration has."""
        return [effect for effect in self.effects if effect.when(config)]
