"""What torch.compile did in this process: time spent, graphs made, frames it gave up on."""

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from advisor.profiles.hooks.imports import after_import

MAX_REASONS = 5


class Compiling:
    """Watches dynamo through its own callbacks; costs nothing while nothing compiles.

    Args:
        on_change: Called with ``True`` when a compilation begins and ``False`` when it ends.
    """

    def __init__(self, on_change: Callable[[bool], None]) -> None:
        self._on_change = on_change
        self._began = 0.0
        self._depth = 0
        self.seconds = 0.0
        self.count = 0
        self._dynamo_seen = False

    def arm(self) -> None:
        """Register as soon as dynamo is imported."""
        after_import("torch._dynamo", self._register)

    def summary(self) -> dict[str, Any]:
        """Seconds spent, compilations, frames seen and compiled, and why frames fell back."""
        if not self._dynamo_seen:
            return {"seconds": 0.0, "count": 0, "frames": 0, "compiled": 0, "failures": []}
        from torch._dynamo.utils import counters, get_compilation_metrics

        failures = [
            f"{metric.fail_type}: {((metric.fail_reason or '').strip().splitlines() or [''])[0]}"
            for metric in get_compilation_metrics()
            if metric.fail_type
        ]
        return {
            "seconds": self.seconds,
            "count": self.count,
            "frames": int(counters["frames"].get("total", 0)),
            "compiled": int(counters["frames"].get("ok", 0)),
            "failures": failures[:MAX_REASONS],
        }

    def _register(self, module: ModuleType) -> None:
        from torch._dynamo.callback import callback_handler

        self._dynamo_seen = True
        callback_handler.register_start_callback(lambda arguments: self._start())
        callback_handler.register_end_callback(lambda arguments: self._end())

    def _start(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
            self.count += 1
            self._on_change(True)

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began
            self._on_change(False)
