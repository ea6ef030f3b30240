"""Programs with a planted gain: what brings it, how long a start and a step take, and what is asked of a run.

A cell is called ``KIND/START/STEP``, in seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

STARTS_S = (2, 20, 60)
STEPS_S = (0.02, 0.5, 2)
SLOW_START = "slow_start"
SAMPLE = 1000  # tensors or pages of which the cost is measured first


Cost = Callable[[str, int], tuple[float, float]]  # of an option and a count: slow and fast seconds


@dataclass(frozen=True)
class Kind:
    """What brings the gain: settings of which one is enough, and the goals of a run that looks for it."""

    gain: float
    knobs: tuple[str, ...]
    launches: int
    in_time: bool = True  # whether seconds have a goal as well


KINDS = {
    "loader": Kind(4.0, ("num_workers", "in_memory_cache"), 5),
    "live": Kind(1.5, ("optimizer_implementation",), 5),
    "small": Kind(1.1, ("optimizer_implementation",), 10),
    "restart": Kind(1.3, ("malloc",), 8, in_time=False),
}
STARTUPS, STEPS = 5, 100  # of which a verdict may take the time
FIELD = Kind(7.0, ("num_workers",), 5)  # items of 15 ms behind a start of 18 s
FIELD_SECONDS, FIELD_WORKERS = 300.0, 4
USUAL = (
    "loader/2/0.02", "loader/20/0.5", "loader/60/2", "live/2/0.02", "live/20/0.5", "live/60/2",
    "restart/2/0.02", "restart/20/0.5", "restart/60/0.5", "small/2/0.02", "small/20/0.5", SLOW_START,
)  # fmt: skip
SHORT = tuple(f"{kind}/{where}" for where in ("2/0.02", "20/0.5") for kind in ("loader", "live", "restart"))
LEAST_BUDGET_S = 90  # of a short run: half a dozen starts of torch itself


@dataclass(frozen=True)
class Cell:
    """One program that is tuned."""

    name: str

    @property
    def kind(self) -> Kind:
        """What brings its gain."""
        return FIELD if self.name == SLOW_START else KINDS[self.name.split("/")[0]]

    @property
    def asked_s(self) -> float:
        """Seconds in which a verdict is asked for, by the planned start and step."""
        if self.name == SLOW_START:
            return FIELD_SECONDS
        start, step = (float(word) for word in self.name.split("/")[1:])
        return STARTUPS * start + STEPS * step

    @property
    def short_budget_s(self) -> float:
        """Seconds granted to a run of which the planned start and step are known: twice what is asked."""
        return max(LEAST_BUDGET_S, 2 * self.asked_s)

    def arguments(self, cost: Cost) -> list[str]:
        """Of the program.

        Args:
            cost: Measures the program's ``--tensors`` or ``--pages``.
        """
        if self.name == SLOW_START:
            return ["--start", "18", "--wait", "0.48", "--batch-size", "32", "--steps", "625"]
        name, start, step = self.name.split("/")
        step_s, gain = float(step), self.kind.gain
        start_and_think = ["--start", start, "--think"]
        if name == "loader":
            return [*start_and_think, f"{step_s / gain:.4f}", "--wait", f"{step_s * (1 - 1 / gain):.4f}"]
        option = "--pages" if name == "restart" else "--tensors"
        count, think_s = portions(option, cost, gain, step_s)
        return [*start_and_think, f"{think_s:.4f}", option, str(count)]


def portions(option: str, cost: Cost, gain: float, step_s: float) -> tuple[int, float]:
    """How many slow things a step does, and for how many seconds it thinks, so that it gains so much.

    From slow + think = gain x (fast + think), the left side being about ``step_s``.

    Raises:
        ValueError: What is slow gains less by itself.
    """
    count = SAMPLE
    for _ in range(2):  # what one costs depends on how many there are
        slow_s, fast_s = cost(option, count)
        if slow_s < gain * fast_s:
            raise ValueError(
                f"{slow_s:.2g} s against {fast_s:.2g} s for {count} {option[2:]}: gains too little"
            )
        count = max(1, round(count * step_s * (1 - 1 / gain) / (slow_s - fast_s)))
    slow_s, fast_s = cost(option, count)
    return count, max(0.0, (slow_s - gain * fast_s) / (gain - 1))


def chosen(patterns: Sequence[str]) -> list[Cell]:
    """The cells that the patterns name, each once, the quickest first.

    Raises:
        SystemExit: A pattern names none.
    """
    every = [f"{kind}/{start:g}/{step:g}" for kind in KINDS for start in STARTS_S for step in STEPS_S]
    every.append(SLOW_START)
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in every):
            raise SystemExit(f"no cell is called {pattern}; there are {', '.join(every)}")
    named = [Cell(name) for name in every if any(fnmatch(name, pattern) for pattern in patterns)]
    return sorted(named, key=lambda cell: cell.asked_s)
