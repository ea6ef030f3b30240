"""In which way two configurations are compared, and over how many steps: by what is known of the program."""

from collections.abc import Callable, Collection, Mapping

from advisor.profiles.derived.epochs import Epochs
from advisor.tuners.comparing.measure import slot_steps
from advisor.tuners.comparing.warm_up import MOST_WINDOWS, WARMUP_STEPS
from advisor.tuners.comparing.windows import FRESH_S, FRESH_SHARE, window_steps
from advisor.tuners.comparing.worker_starts import steps_before
from advisor.tuners.knob import AnyKnob, Value

QUIET_SIGMA = 0.02  # spread of a quad that any pair of processes shows (measurement.md, section 1)
LIVE, BATON, WINDOWS, SWITCHED = "live", "baton", "windows", "switched"


class Ways:
    """Decides for an arena, whose attributes are told there."""

    knobs: Mapping[str, AnyKnob]
    present: Mapping[str, Value]
    step_s: float
    startup_s: float
    sigma: float
    period: int
    queue_depth: Callable[[Mapping[str, Value]], int]
    epochs: Epochs | None
    two_fit: bool
    at_once: bool
    start_at_once: bool
    waits: bool
    max_steps: int | None
    fixed_steps: int | None
    switches: Collection[str]

    def how(self, first: Mapping[str, Value], second: Mapping[str, Value], *, fresh: bool = False) -> str:
        """The way in which two configurations are compared.

        Args:
            first: One configuration.
            second: The other.
            fresh: For a confirmation: with loader workers even live knobs need whole windows, and each is
                that of a fresh process.

        A program that ends before two quads is launched for each window.
        """
        different = [name for name in first if first[name] != second.get(name)]
        live = all(self.knobs[name].live for name in different)
        loading = any(self.knobs[name].loading for name in different)
        workers = self._depth(first) > 0 or self._depth(second) > 0
        if loading or (workers and (fresh or not live)):
            return SWITCHED if not fresh and self.may_switch(first, second) else WINDOWS
        if live and self._long_enough():
            return LIVE
        return BATON if self.two_fit and self.max_steps is None else WINDOWS

    def may_switch(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> bool:
        """Whether a window of each can be taken in one process, which goes over from one to the other."""
        return self.settled(first) == self.settled(second) and self._has_two_windows(first, second)

    def start_together(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> bool:
        """Whether processes for a window of each start at once, and wait for their turns to load a batch."""
        ranks = max(int(config.get("ranks", 1)) for config in (first, second))
        return self.waits and (self.at_once or self.start_at_once) and self.two_fit and ranks == 1

    def starts(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> int:
        """Times of a start until a process of each is there, however they are compared."""
        return 1 if (self.at_once and self.two_fit) or self.start_together(first, second) else 2

    def settled(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """The part of a configuration that a process has from its start to its end.

        Settings of loaders are in it where another change stands between loaders and the loop, or deals their
        samples to other ranks than the program's own.
        """
        own = self.present.get("ranks", 1)
        dealt = config.get("ranks", own) != own
        between = dealt or any(
            knob.loading and not knob.of_iterator and value != self.present.get(name, value)
            for name, value in config.items() if (knob := self.knobs[name])
        )  # fmt: skip
        return {
            name: value for name, value in config.items()
            if not (self.knobs[name].live or (name in self.switches and not between))
        }  # fmt: skip

    def steps(self) -> int:
        """Steps of one slot."""
        return self.fixed_steps or slot_steps(self.step_s, self.period)

    @property
    def quad_s(self) -> float:
        """Expected seconds of one quad of baseline slots, dropped steps included.

        Beside slots of a single step that is the first one after a switch.
        """
        return (4 * self.steps() + (3 if self.steps() == 1 else 4)) * self.step_s

    def window_steps(self, config: Mapping[str, Value], *, fresh: bool = False) -> tuple[int, int]:
        """Steps dropped and measured in a window: by how far workers can run ahead, and what acts late.

        Args:
            config: What it runs under.
            fresh: It is that of a process that is started for it: what is measured then costs little more.
        """
        depth = self._depth(config)
        drop = max(WARMUP_STEPS, depth, steps_before(config, self.knobs, self.epochs))
        measured = window_steps(
            depth=depth,
            slot_steps=self.steps(),
            step_s=self.step_s,
            period=self.period,
            epoch=self.epochs.steps(config) if self.epochs is not None else None,
            most=None if self.max_steps is None else self.max_steps - drop - 2,
            quiet=self.sigma <= QUIET_SIGMA,
            least_s=min(FRESH_S, FRESH_SHARE * self.startup_s) if fresh else 0.0,
        )
        return drop, measured

    def _depth(self, config: Mapping[str, Value]) -> int:
        """How many batches workers can run ahead, also where nobody searches for their number."""
        return self.queue_depth({**self.present, **config})

    def _long_enough(self) -> bool:
        """Whether one launch has the steps of a warm-up and of two quads."""
        warm_up = MOST_WINDOWS * max(WARMUP_STEPS, self.period)
        return self.max_steps is None or self.max_steps >= warm_up + 2 * 4 * (self.steps() + 1)

    def _has_two_windows(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> bool:
        """Whether one launch has the steps of a warm-up and of a window of each."""
        warm_up = MOST_WINDOWS * max(WARMUP_STEPS, self.period)
        windows = sum(self.window_steps(first)) + sum(self.window_steps(second))
        return self.max_steps is None or self.max_steps >= warm_up + windows
