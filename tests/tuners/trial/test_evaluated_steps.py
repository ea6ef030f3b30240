"""Programs without a clean step, such as one that evaluates after each of them."""

from pathlib import Path

import pytest

from advisor.stages.diagnosing.watched import phases_of_watched
from advisor.tuners.launching.launch import Launcher
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


def test_a_program_that_evaluates_after_each_step_is_watched_with_what_that_takes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "study").mkdir()
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    launcher = Launcher(target, tmp_path / "study", device="cpu")
    launcher.limits.start_s = 120
    with launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        observed = session.ask(Observe(0.0, 20, 60.0), Observed, 120.0)
        session.kill()
    assert observed.all_flagged and len(observed.wall_ns) == 20 + FLAGGED_LIMIT
    phases = phases_of_watched(observed)
    assert phases.evaluation_ms > 0
    parts = ("forward", "backward", "optimizer", "evaluation", "other")
    assert abs(phases.share(*parts) - 1) < 0.01


def test_clean_steps_are_waited_for_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "study").mkdir()
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    launcher = Launcher(target, tmp_path / "study", device="cpu")
    launcher.limits.start_s = 120

    def made() -> int:
        return int((tmp_path / "steps.txt").read_text())

    with launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        before = made()
        session.slot(3, drop=0)
        assert session.last.all_flagged and made() - before == 2 * 3 + FLAGGED_LIMIT
        before = made()
        session.slot(3, drop=0)
        assert session.last.all_flagged and made() - before == 3
        assert len(session.last.wall_ns) == 3
        session.kill()
