"""A recorded window: what it tells of its steps beside the trace."""

from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch
from advisor.profiles.traces.reading import read_trace
from advisor.stages.diagnosing.watched import phases_of_recorded
from advisor.tuners.trial.look_messages import Recorded
from advisor.tuners.trial.tasks import Recording

BEFORE, STEPS = 20, 6


def _recorded(path: Path) -> Recorded:
    """The message about a window of a small program."""
    tasks: list[Recording] = []
    messages: list[Recorded] = []

    def closed(step: Step) -> None:
        if tasks and not messages:
            if tasks[0].take(step):
                messages.append(tasks[0].finish())
        elif clock.steps == BEFORE:
            tasks.append(Recording(clock, path, STEPS, shapes=False, places=False))
            tasks[0].begin()

    clock = Clock(closed)
    watch = Watch(Run({}, {}), clock)
    watch.install()
    try:
        model = torch.nn.Linear(64, 64)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        batch = torch.randn(32, 64)
        for _ in range(BEFORE + 2 * STEPS):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
    finally:
        watch.remove()
    return messages[0]


def test_the_parts_of_recorded_steps_are_told(tmp_path: Path) -> None:
    message = _recorded(tmp_path / "trace.json")
    assert len(message.phases_ns) == len(message.wall_ns) == STEPS
    phases = phases_of_recorded(message)
    assert min(phases.forward_ms, phases.backward_ms, phases.optimizer_ms) > 0
    assert phases.compute_ms <= phases.step_ms
    assert phases.steps == STEPS
    assert read_trace(tmp_path / "trace.json").of("cpu_op").any()


def test_steps_with_something_between_them_are_left_out_of_the_parts() -> None:
    recorded = Recorded(
        path="trace.json",
        wall_ns=(2_000_000, 50_000_000, 4_000_000),
        flags=((), ("evaluation",), ()),
        phases_ns=({"forward": 1_000_000}, {"forward": 9_000_000, "backward": 1}, {"forward": 2_000_000}),
    )
    phases = phases_of_recorded(recorded)
    assert (phases.step_ms, phases.forward_ms, phases.backward_ms) == pytest.approx((3.0, 1.5, 0.0))
    every = phases_of_recorded(replace(recorded, flags=(("epoch",),) * 3))
    assert every.forward_ms == pytest.approx(4.0)
