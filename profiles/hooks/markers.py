"""The user's line around every torch function, as a range in the trace that is being recorded.

torch.profiler's own Python stacks name the line of a ``def``, not of a call, multiply the events, and ended
programs with a second Python thread by a segmentation fault (torch 2.13). A function mode is called by torch
for every function and operator that Python calls, and can put a range around it.
"""

import sys
from collections.abc import Callable
from typing import Any

from advisor.profiles.facts.observed import USER_LINE
from advisor.profiles.hooks.user_lines import user_location


def ranges() -> tuple[Callable[[str], Any], Callable[[Any], None]]:
    """What begins a range of a name in the trace that is recorded, and what ends it.

    As ``torch.profiler.record_function`` does, in a quarter of its time.
    """
    from torch._C._autograd import _record_function_with_args_enter, _record_function_with_args_exit

    return _record_function_with_args_enter, _record_function_with_args_exit


class Markers:
    """Marks places between ``start`` and ``stop``; costs microseconds a call, so never beside timing."""

    def __init__(self) -> None:
        self._mode: Any = None

    def start(self) -> None:
        """Mark from now on, in this thread."""
        self._mode = _mode()
        self._mode.__enter__()

    def stop(self) -> None:
        """Mark no longer."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None


def _mode() -> Any:
    from torch.overrides import TorchFunctionMode

    open_range, close_range = ranges()

    class Marking(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(function, "__name__", "")
            place = None if name == "__get__" else user_location(sys._getframe(1))
            if place is None:
                return function(*args, **(kwargs or {}))
            marked = open_range(f"{USER_LINE}{place.file}:{place.line}:{place.function}")
            try:
                return function(*args, **(kwargs or {}))
            finally:
                close_range(marked)

    return Marking()
