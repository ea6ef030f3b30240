"""A torch.profiler window of a few steps in the process that trains, written as a trace file.

Nothing is timed inside it for any comparison. Flags follow from the events per step: shapes and the user's
lines come from a short window of their own, since recording them costs more than all else.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.base.fault_points import hit
from advisor.profiles.hooks.markers import Markers, ranges
from advisor.profiles.hooks.model.discovery import dynamo_at_work

STEP = "advisor_step#"
PHASES = {"input_wait": "advisor_loader"}  # other phases are ``advisor_<phase>``
MOST_EVENTS = 300_000  # of a window: about 2 s to write and read
MOST_STEPS = 20
LEAST_STEPS = 3
MARKED_STEPS = 2
MARKED_EVENTS = 60_000  # per step; with more, places are left out, and one step is enough


@dataclass(frozen=True)
class Plan:
    """How long to record, and with which flags."""

    steps: int
    shapes: bool = True
    places: bool = False


def plan(events_per_step: float, period: int = 1, *, most: int = MOST_STEPS) -> list[Plan]:
    """The windows worth recording: one for times, one for shapes and places.

    Args:
        events_per_step: Operators and runtime calls of one step, from a pilot window.
        period: Steps after which the order of optimizers repeats.
        most: Steps of the first at most, but for whole periods.
    """
    affordable = int(MOST_EVENTS / max(events_per_step, 1.0))
    steps = max(LEAST_STEPS if affordable >= LEAST_STEPS else 1, min(most, affordable))
    places = events_per_step <= MARKED_EVENTS
    return [
        Plan(-(-steps // period) * period, shapes=False),
        Plan((MARKED_STEPS if places else 1) * period, places=places),
    ]


def can_mark(kind: str | None) -> bool:
    """Whether the function mode that marks places can come and go at the end of a step.

    Not where a step ends within ``Tensor.backward``, which takes the modes off while it runs, nor within a
    mode of the program's own (``with torch.device(...)``): modes leave in the order of a stack.

    Args:
        kind: Of the ticks that close steps.
    """
    import torch

    return kind != "backward" and torch._C._len_torch_function_stack() == 0


class Recorder:
    """Records from one step border to another. Torch must have been imported.

    Args:
        path: Where the trace is written.
        shapes: Record input shapes and types.
        places: Mark the user's line around every torch function; left out where anything is compiled, as
            it would be compiled anew.
    """

    def __init__(self, path: Path, *, shapes: bool = True, places: bool = False) -> None:
        import torch

        activities = [torch.profiler.ProfilerActivity.CPU]
        cuda = torch.cuda.is_initialized()
        if cuda:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._path = path
        self._torch = torch
        self._profiler = torch.profiler.profile(
            activities=activities, record_shapes=shapes, acc_events=False, experimental_config=_sparing(cuda)
        )
        self._open_range, self._close_range = ranges()
        self._step: Any = None
        self._phases: list[Any] = []
        self._number = 0
        self._running = False
        self._markers = Markers() if places and not dynamo_at_work() else None

    def start(self) -> None:
        """Begin at a step border."""
        self._synchronise()
        self._profiler.start()
        self._running = True
        self._open_step()
        if self._markers is not None:
            self._markers.start()

    def step(self) -> None:
        """A step has ended and another begins."""
        self._close_range(self._step)
        self._open_step()

    def stop(self) -> None:
        """End at a step border; the trace is on disk when this returns."""
        if self._markers is not None:
            self._markers.stop()
        self._close_range(self._step)
        self._synchronise()
        self._profiler.stop()
        self._running = False
        hit("artefact.before")
        self._profiler.export_chrome_trace(str(self._path))
        hit("artefact.after")

    def abandon(self) -> None:
        """End at once, wherever the program is, and write nothing; also what failed to start or to stop."""
        while self._phases:
            self.leave()
        if self._running:
            self._running = False
            self._close_range(self._step)
            self._profiler.stop()
        if self._markers is not None:
            self._markers.stop()

    def enter(self, phase: str) -> None:
        """A phase of the clock begins."""
        self._phases.append(self._open_range(PHASES.get(phase, f"advisor_{phase}")))

    def leave(self) -> None:
        """The innermost phase ends."""
        if self._phases:
            self._close_range(self._phases.pop())

    def _open_step(self) -> None:
        self._step = self._open_range(f"{STEP}{self._number}")
        self._number += 1

    def _synchronise(self) -> None:
        if self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()


def _sparing(cuda: bool) -> Any:
    """What the profiler need not do: no trace differs by it. ``None`` for a torch that knows none of it.

    Objects for ``events()`` take a quarter of the time that stopping does. Identifiers that link kernels to
    operators take a seventh of what recording an operator adds, also where there is no device.
    """
    import torch

    try:
        return torch._C._profiler._ExperimentalConfig(trace_only=True, disable_external_correlation=not cuda)
    except TypeError:  # ``trace_only`` is younger than the oldest torch that is supported
        return None
