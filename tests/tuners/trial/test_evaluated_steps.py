"""Programs without a clean step, such as one that evaluates after each of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.stages.diagnosing.watched import phases_of_watched
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.trial.look_messages import Observe, Observed
from advisor.tuners.trial.slot import FLAGGED_LIMIT
from advisor.tuners.trial.spec import Target

PROGRAM = """
import pathlib, torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    pathlib.Path("steps.txt").write_text(str(step))
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        model(torch.ones(8, 4))
"""

pytestmark = pytest.mark.usefixtures("no_process_remains", "warm_trials")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Running]:
    """The program, at the end of its first step."""
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "study").mkdir()
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    launcher = Launcher(target, tmp_path / "study", device="cpu")
    launcher.limits.start_s = 120
    with launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        yield session
        session.kill()


def test_a_program_that_evaluates_after_each_step_is_watched_with_what_that_takes(session: Running) -> None:
    observed = session.ask(Observe(0.0, 20, 60.0), Observed, 120.0)
    assert observed.all_flagged and len(observed.wall_ns) == 20 + FLAGGED_LIMIT
    phases = phases_of_watched(observed)
    assert phases.evaluation_ms > 0
    parts = ("forward", "backward", "optimizer", "evaluation", "other")
    assert abs(phases.share(*parts) - 1) < 0.01


def test_clean_steps_are_waited_for_once(session: Running, tmp_path: Path) -> None:
    def made() -> int:
        return int((tmp_path / "steps.txt").read_text())

    before = made()
    session.slot(3, drop=0)
    assert session.last.all_flagged and made() - before == 2 * 3 + FLAGGED_LIMIT
    before = made()
    session.slot(3, drop=0)
    assert session.last.all_flagged and made() - before == 3
    assert len(session.last.wall_ns) == 3
