"""Programs with a planted gain: what brings it, how long a start and a step take, and what is asked of a run.

A cell is called ``KIND/START/STEP``, in seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

STARTS_S = (2, 20, 60)
STEPS_S = (0.02, 0.5, 2)
SLOW_START = "slow_start"


@dataclass(frozen=True)
class Kind:
    """What brings the gain: settings of which one is enough, and the goals of a run that looks for it."""

    gain: float
    knobs: tuple[str, ...]
    launches: int
    in_time: bool = True  # whether seconds have a goal as well


KINDS = {
    "loader": Kind(4.0, ("num_workers", "in_memory_cache"), 5),
    "live": Kind(1.5, ("detect_anomaly",), 5),
    "small": Kind(1.1, ("detect_anomaly",), 10),
    "restart": Kind(1.3, ("malloc",), 8, in_time=False),
}
STARTUPS, STEPS = 5, 100  # of which a verdict may take the time
FIELD = Kind(7.0, ("num_workers",), 5)  # items of 15 ms behind a start of 18 s
FIELD_SECONDS, FIELD_WORKERS = 300.0, 4
USUAL = (
    "loader/2/0.02", "loader/20/0.5", "loader/60/2", "live/2/0.02", "live/20/0.5", "live/60/2",
    "restart/2/0.02", "restart/20/0.5", "restart/60/0.5", "small/2/0.02", "small/20/0.5", SLOW_START,
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One program that is tuned."""

    name: str

    @property
    def kind(self) -> Kind:
        """What brings its gain."""
        return FIELD if self.name == SLOW_START else KINDS[self.name.split("/")[0]]

    def arguments(self, costs: Mapping[str, float]) -> list[str]:
        """Of the program.

        Args:
            costs: Seconds of an operation, of a watched one, of a page and of a kept page.
        """
        if self.name == SLOW_START:
            return ["--start", "18", "--wait", "0.48", "--batch-size", "32", "--steps", "625"]
        name, start, step = self.name.split("/")
        step_s, gain = float(step), self.kind.gain
        start_and_think = ["--start", start, "--think"]
        if name == "loader":
            return [*start_and_think, f"{step_s / gain:.4f}", "--wait", f"{step_s * (1 - 1 / gain):.4f}"]
        slow, fast, option = "page_s", "kept_page_s", "--pages"
        if name in ("live", "small"):
            slow, fast, option = "watched_operation_s", "operation_s", "--operations"
        count, think_s = portions(costs[slow], costs[fast], gain, step_s)
        return [*start_and_think, f"{think_s:.4f}", option, str(count)]


def portions(slow_s: float, fast_s: float, gain: float, step_s: float) -> tuple[int, float]:
    """How many slow things a step does, and for how many seconds it thinks, so that fast ones gain so much.

    From count x slow + think = gain x (count x fast + think), about ``step_s`` of which the left side is.

    Raises:
        ValueError: Fast things gain less by themselves.
    """
    if slow_s < gain * fast_s:
        raise ValueError(f"{slow_s:.2g} s against {fast_s:.2g} s gains less than {gain} here")
    count = max(1, round(step_s * (1 - 1 / gain) / (slow_s - fast_s)))
    return count, count * (slow_s - gain * fast_s) / (gain - 1)


def chosen(patterns: Sequence[str]) -> list[Cell]:
    """The cells that the patterns name, each once.

    Raises:
        SystemExit: A pattern names none.
    """
    every = [f"{kind}/{start:g}/{step:g}" for kind in KINDS for start in STARTS_S for step in STEPS_S]
    every.append(SLOW_START)
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in every):
            raise SystemExit(f"no cell is called {pattern}; there are {', '.join(every)}")
    return [Cell(name) for name in every if any(fnmatch(name, pattern) for pattern in patterns)]
