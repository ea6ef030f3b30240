"""Which lines of the user's program are hot, by looking at its thread every few milliseconds."""

import random
import sys
import threading
from _thread import get_ident
from collections import Counter
from collections.abc import Callable

from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.hooks.running_expression import Span, expression, span_of
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import place_of, user_frame

INTERVAL_S = 0.005
SWITCH_S = 0.0001  # or most samples fall on calls that release the interpreter by themselves
SHOWN = 3  # lines per phase
LEAST = 3  # samples of a line: one that was met once may be any
MOST = 0.5  # of a line's samples, that must have met a call for it to be named
BY_ENGINE = "backward"  # one call of the program's starts it, with a frame of ours around it
OUTSIDE = "other"  # what StepPhases calls the time that no phase covers


class Sampler:
    """Samples the thread that calls ``start``, from another thread, until ``stop``.

    Never on while anything is timed: every sample stops the program for some microseconds.

    Args:
        clock: Says which phase a sample belongs to.
        interval_s: Mean seconds between two samples; they are jittered, or they would follow the steps.
        beyond_us: Whether a line of the program counts when code of ours runs on its behalf.
        unless: Tells when no sample is to be taken.

    Attributes:
        samples: Taken so far.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        interval_s: float = INTERVAL_S,
        beyond_us: bool = True,
        unless: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._unless = unless
        self._interval_s = interval_s
        self._beyond_us = beyond_us
        self.samples = 0
        self._sampled = 0
        self._switch_s = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._counts: Counter[tuple[str, Location | None, bool]] = Counter()
        self._spans: dict[tuple[str, Location | None, bool], Counter[Span | None]] = {}

    def start(self) -> None:
        """Sample the calling thread from now on."""
        if self._thread is not None:
            return
        self._sampled = get_ident()
        self._stopped.clear()
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._thread = threading.Thread(target=self._run, name="advisor-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples; what was counted stays."""
        if self._thread is not None:
            self._stopped.set()
            self._thread.join()
            sys.setswitchinterval(self._switch_s)
            self._thread = None

    def hotspots(self) -> tuple[HotSpot, ...]:
        """The lines met most in each phase, with their share of all samples of that phase.

        To be asked after ``stop``.
        """
        totals: Counter[str] = Counter()
        for (phase, _, _), count in self._counts.items():
            totals[phase] += count
        shown: list[HotSpot] = []
        for phase in sorted(totals):
            lines = [(place, n, inner) for (each, place, inner), n in self._counts.items() if each == phase]
            ordered = sorted(lines, key=lambda one: -one[1])
            met = [(place, n, inner) for place, n, inner in ordered if place and n >= LEAST]
            shown += [
                HotSpot(phase, place, n / totals[phase], inner, self._call(phase, place, inner))
                for place, n, inner in met[:SHOWN]
            ]
        return tuple(shown)

    def _call(self, phase: str, place: Location, inner: bool) -> str:
        """What most samples of a line met there, in the words of its source; empty where nothing is most."""
        met: Counter[str] = Counter()
        for span, count in self._spans.get((phase, place, inner), Counter()).items():
            met[expression(span) if span is not None else ""] += count
        name, most = met.most_common(1)[0] if met else ("", 0)
        return name if most >= MOST * met.total() else ""

    def _run(self) -> None:
        jitter = random.Random()  # its own: the program's random numbers stay as they are
        while not self._stopped.wait(self._interval_s * jitter.uniform(0.5, 1.5)):
            self._take()

    def _take(self) -> None:
        frame = sys._current_frames().get(self._sampled)
        if frame is None or self._clock.between_steps or self._unless():
            return
        try:
            phase = self._clock.phase
        except IndexError:  # the phase ended while we asked
            return
        found = user_frame(frame, beyond_us=False)
        inner = found is not None and phase == BY_ENGINE
        if found is None and self._beyond_us:
            found = user_frame(frame)
        met = phase or OUTSIDE, place_of(found) if found is not None else None, inner
        self._counts[met] += 1
        if found is not None:
            self._spans.setdefault(met, Counter())[span_of(found)] += 1
        self.samples += 1
