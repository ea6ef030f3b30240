"""Debugging aids that a program left on while it trains, and switches of torch's libraries."""

import os
import sys
from collections.abc import Callable
from typing import Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import is_ours, user_location

LEAST = 4  # backwards looked at before a profiler counts as left on
AHEAD = 100  # steps, in which a profiler of the program's own would meet ours
VARIABLES = {
    "launch_blocking": ("CUDA_LAUNCH_BLOCKING", ("1",)),
    "distributed_debug": ("TORCH_DISTRIBUTED_DEBUG", ("INFO", "DETAIL")),
    "cpp_stacktraces": ("TORCH_SHOW_CPP_STACKTRACES", ("1",)),
}
"""Aid: the variable that asks for it, and the values by which it does."""


class Debugging:
    """Notes anomaly detection, a running profiler, gradient checks, and variables of the environment.

    ``look`` is to be called in the first backwards: what is on there is on in the steps.
    """

    def __init__(self, clock: Clock, scope: Scope) -> None:
        from torch.autograd import anomaly_mode

        self._clock = clock
        self._scope = scope
        self._looks = 0
        self._anomalies = 0
        self._profilers = 0
        self._checks = 0
        self._anomaly_location: Location | None = None
        self._check_location: Location | None = None
        self._mkldnn: bool | None = None
        gradcheck = sys.modules["torch.autograd.gradcheck"]  # torch.autograd has a function of that name
        self.patches = [
            Patch(anomaly_mode.detect_anomaly, "__enter__", self._wrap_anomaly),  # __init__ warns its caller
            Patch(anomaly_mode.set_detect_anomaly, "__init__", self._wrap_anomaly),
            Patch(gradcheck, "_gradcheck_helper", self._wrap_check),
            Patch(sys.modules["torch.profiler"].profile, "start", self._wrap_start),
            Patch(sys.modules["torch.profiler"].profile, "stop", self._wrap_stop),
        ]
        self._own_profilers: list[tuple[Any, Location | None]] = []  # started and not stopped

    @property
    def anomaly_seen(self) -> bool:
        """Whether a backward ran under anomaly detection."""
        return self._anomalies > 0

    def install(self) -> None:
        """Watch from now on."""
        for patch in self.patches:
            patch.install()

    def remove(self) -> None:
        """Watch no longer."""
        for patch in self.patches:
            patch.remove()

    def look(self) -> None:
        """A backward is about to run."""
        import torch

        self._looks += 1
        self._anomalies += torch.is_anomaly_enabled()
        self._profilers += torch._C._autograd._profiler_enabled()
        self._mkldnn = torch._C._get_mkldnn_enabled()

    @property
    def profiler_ahead(self) -> Location | None:
        """Where the program made a profiler of its own that records now or in one of the next steps.

        Two at once end the process. One that was stopped, or whose schedule is over, is none.
        """
        found = (place for profiler, place in self._own_profilers if _records_soon(profiler))
        return next(found, None)

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``."""
        import torch

        own = self.profiler_ahead
        aids = {
            "anomaly": self.anomaly_seen,
            "profiler": own is not None or self._profilers == self._looks >= LEAST,
            "gradcheck": self._checks > 0,
            **{aid: os.environ.get(name, "").upper() in on for aid, (name, on) in VARIABLES.items()},
        }
        locations = {
            "anomaly": self._anomaly_location, "gradcheck": self._check_location, "profiler": own,
        }  # fmt: skip
        found = [aid for aid, is_on in aids.items() if is_on]
        enabled = torch._C._get_mkldnn_enabled() if self._mkldnn is None else self._mkldnn
        return {
            "debug": tuple(found),
            "debug_location": next((locations[aid] for aid in found if locations.get(aid)), None),
            "own_profiler": own,
            "mkldnn_enabled": enabled,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
        }

    def _wrap_anomaly(self, original: Callable[..., None]) -> Callable[..., None]:
        def begin(context: Any, *args: Any, **kwargs: Any) -> None:
            original(context, *args, **kwargs)
            if self._anomaly_location is None and self._scope.here():
                self._anomaly_location = user_location()

        return begin

    def _wrap_start(self, original: Callable[..., None]) -> Callable[..., None]:
        def start(profiler: Any) -> None:
            if not is_ours(sys._getframe(1)):
                self._own_profilers.append((profiler, user_location()))
            original(profiler)

        return start

    def _wrap_stop(self, original: Callable[..., None]) -> Callable[..., None]:
        def stop(profiler: Any) -> None:
            self._own_profilers = [each for each in self._own_profilers if each[0] is not profiler]
            original(profiler)

        return stop

    def _wrap_check(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def check(*args: Any, **kwargs: Any) -> Any:
            if self._scope.here() and self._clock.first_tick_ns is not None:
                self._checks += 1
                if self._check_location is None:
                    self._check_location = user_location()
            return original(*args, **kwargs)

        return check


def _records_soon(profiler: Any) -> bool:
    """Whether a profiler of torch records, or will within some steps by its schedule."""
    from torch.profiler import ProfilerAction

    ahead = range(profiler.step_num, profiler.step_num + AHEAD)
    return any(profiler.schedule(step) is not ProfilerAction.NONE for step in ahead)
