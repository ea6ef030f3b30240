"""What ``torch.compile`` did in this process: time spent, graphs made, breaks, recompilations, failures."""

import re
import time
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

from advisor.profiles.facts.observed import CompileFacts, GraphBreak, Location
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.user_lines import LIBRARIES

MAX_REASONS = 5
LIMIT = "recompile limit exceeded"  # as dynamo words it
FRAME = re.compile(r'^ +File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
WARMUP = 10  # steps; what is compiled later recompiles


class Compiling:
    """Watches dynamo through its own callbacks; costs nothing while nothing compiles.

    Args:
        on_change: Called with ``True`` when a compilation begins and ``False`` when it ends.
        steps: Says how many steps were closed so far.
    """

    def __init__(self, on_change: Callable[[bool], None], steps: Callable[[], int] = lambda: 0) -> None:
        self._on_change = on_change
        self._steps = steps
        self._began = 0.0
        self._depth = 0
        self._late = 0
        self._late_seconds = 0.0
        self.seconds = 0.0
        self._dynamo_seen = False
        self._armed = False

    def arm(self) -> None:
        """Register as soon as dynamo is imported."""
        self._armed = True
        after_import("torch._dynamo", self._register)

    def disarm(self) -> None:
        """Leave dynamo as it was."""
        if self._armed and self._dynamo_seen:
            from torch._dynamo.callback import callback_handler

            callback_handler.remove_start_callback(self._start)
            callback_handler.remove_end_callback(self._end)
        self._armed = False

    def summary(self) -> dict[str, Any]:
        """Seconds spent, frames compiled, graphs, breaks, why frames fell back."""
        facts = self.facts()
        if facts is None:
            return {}
        return {
            "seconds": facts.seconds,
            "compiled": facts.compiled,
            "graphs": facts.graphs,
            "breaks": len(facts.breaks),
            "recompiles": facts.recompiles_after_warmup,
            "failures": _failures()[:MAX_REASONS] + ([LIMIT] if facts.limit_reached else []),
        }

    def facts(self) -> CompileFacts | None:
        """Everything known so far; ``None`` where dynamo was never imported.

        ``breaks_per_step`` counts each place once: a place that broke a graph is met again in every call.
        """
        if not self._dynamo_seen:
            return None
        from torch._dynamo.utils import counters, get_compilation_metrics

        metrics = get_compilation_metrics()
        breaks = _breaks()
        failures = [failure for failure in _failures() if LIMIT not in failure]
        told = [metric.recompile_reason for metric in metrics if metric.recompile_reason]
        reasons = dict.fromkeys(map(_first_line, told))
        skipped = next((m.cudagraph_skip_reason for m in metrics if m.cudagraph_skip_reason), None)
        skips = counters["inductor"].get("cudagraph_skips", 0)
        return CompileFacts(
            frames=int(counters["frames"].get("total", 0)),
            compiled=int(counters["frames"].get("ok", 0)),
            graphs=int(counters["stats"].get("unique_graphs", 0)),
            seconds=self.seconds,
            breaks=breaks,
            breaks_per_step=float(len(breaks)),
            recompiles_after_warmup=self._late,
            recompile_seconds=self._late_seconds,
            recompile_reasons=tuple(reasons)[:MAX_REASONS],
            recompile_location=_in_stack(told[-1]) if told else None,
            limit_reached=any(LIMIT in reason for reason in counters["unimplemented"]),
            cudagraphs_skipped=skipped or (f"{skips} graphs were skipped" if skips else None),
            failures=tuple(failures[:MAX_REASONS]),
        )

    def _register(self, module: ModuleType) -> None:
        if not self._armed:
            return
        from torch._dynamo.callback import callback_handler

        self._dynamo_seen = True
        callback_handler.register_start_callback(self._start)
        callback_handler.register_end_callback(self._end)

    def _start(self, arguments: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
            self._on_change(True)

    def _end(self, arguments: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        spent = time.perf_counter() - self._began
        self.seconds += spent
        is_first = str(arguments.compile_id).endswith("/0")  # of its function
        if self._steps() >= WARMUP and not is_first:
            self._late += arguments.callback_trigger.name == "DYNAMO"
            self._late_seconds += spent
        self._on_change(False)


def _failures() -> list[str]:
    """Frames that dynamo gave up on, in words."""
    from torch._dynamo.utils import get_compilation_metrics

    metrics = [metric for metric in get_compilation_metrics() if metric.fail_type]
    return [f"{metric.fail_type}: {_first_line(metric.fail_reason)}" for metric in metrics]


def _breaks() -> tuple[GraphBreak, ...]:
    """Every place at which a graph was broken, with the number of times that it was compiled so."""
    from torch._dynamo.utils import graph_break_reasons

    counts = Counter((_told(each.reason), _innermost(each.user_stack)) for each in graph_break_reasons)
    return tuple(GraphBreak(reason, location, count) for (reason, location), count in counts.items())


def _told(reason: str) -> str:
    """What and why, on one line; hints and the developer's context left out."""
    lines = [line.strip() for line in reason.splitlines()]
    explanations = [line.partition(":")[2].strip() for line in lines if line.startswith("Explanation:")]
    return ": ".join([lines[0] if lines else "", *explanations[:1]])


def _innermost(stack: list[Any]) -> Location | None:
    users = [frame for frame in stack if not frame.filename.startswith(LIBRARIES)]
    return Location(users[-1].filename, users[-1].lineno, users[-1].name) if users else None


def _in_stack(reason: str) -> Location | None:
    """The innermost place of the user's in the stack that dynamo prints below a reason."""
    frames = [Location(file, int(line), name) for file, line, name in FRAME.findall(reason)]
    users = [frame for frame in frames if not frame.file.startswith(LIBRARIES)]
    return users[-1] if users else None


def _first_line(reason: str | None) -> str:
    """The first line, and the next where that only announces it."""
    first, _, rest = (reason or "").strip().partition("\n")
    return f"{first} {rest.strip().partition(chr(10))[0]}".strip() if first.endswith(":") else first
