"""A torch.profiler window of a few steps in the process that trains, written as a trace file.

Nothing is timed inside it for any comparison. Flags follow from the events per step: shapes always,
Python stacks in a short window of their own, since they multiply the events.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEP = "advisor_step#"
PHASES = {"input_wait": "advisor_loader"}  # other phases are ``advisor_<phase>``
MOST_EVENTS = 300_000  # of a window: about 2 s to write and read
MOST_STEPS = 20
LEAST_STEPS = 3
STACKED_STEPS = 2
STACKED_EVENTS = 60_000  # per step; with more, stacks are left out


@dataclass(frozen=True)
class Plan:
    """How long to record, and with which flags."""

    steps: int
    shapes: bool = True
    stacks: bool = False


def plan(events_per_step: float, period: int = 1) -> list[Plan]:
    """The windows worth recording: one for times and shapes, one for places.

    Args:
        events_per_step: Operators and runtime calls of one step, from a pilot window.
        period: Steps after which the order of optimizers repeats.
    """
    affordable = int(MOST_EVENTS / max(events_per_step, 1.0))
    steps = max(LEAST_STEPS if affordable >= LEAST_STEPS else 1, min(MOST_STEPS, affordable))
    windows = [Plan(-(-steps // period) * period)]
    if events_per_step <= STACKED_EVENTS:
        windows.append(Plan(STACKED_STEPS * period, shapes=True, stacks=True))
    return windows


class Recorder:
    """Records from one step border to another. Torch must have been imported.

    Args:
        path: Where the trace is written.
        shapes: Record input shapes and types.
        stacks: Record Python functions.
    """

    def __init__(self, path: Path, *, shapes: bool = True, stacks: bool = False) -> None:
        import torch

        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._path = path
        self._torch = torch
        self._profiler = torch.profiler.profile(
            activities=activities, record_shapes=shapes, with_stack=stacks, acc_events=False
        )
        self._step: Any = None
        self._phases: list[Any] = []
        self._number = 0

    def start(self) -> None:
        """Begin at a step border."""
        self._synchronise()
        self._profiler.start()
        self._open_step()

    def step(self) -> None:
        """A step has ended and another begins."""
        self._step.__exit__(None, None, None)
        self._open_step()

    def stop(self) -> None:
        """End at a step border; the trace is on disk when this returns."""
        self._step.__exit__(None, None, None)
        self._synchronise()
        self._profiler.stop()
        self._profiler.export_chrome_trace(str(self._path))

    def enter(self, phase: str) -> None:
        """A phase of the clock begins."""
        annotation = self._torch.profiler.record_function(PHASES.get(phase, f"advisor_{phase}"))
        annotation.__enter__()
        self._phases.append(annotation)

    def leave(self) -> None:
        """The innermost phase ends."""
        if self._phases:
            self._phases.pop().__exit__(None, None, None)

    def _open_step(self) -> None:
        self._step = self._torch.profiler.record_function(f"{STEP}{self._number}")
        self._step.__enter__()
        self._number += 1

    def _synchronise(self) -> None:
        if self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()
