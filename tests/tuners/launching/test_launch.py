"""A trial is started, answers, and ends with the right cause."""

import json
import os
import sys
from pathlib import Path

import pytest
from launched_targets import Make, a_launcher, a_script, a_workload
from supervised import until
from warm import Warm
from warm_trials import WarmSubprocess

from advisor.tuners.launching import zygote
from advisor.tuners.launching.session import Session, SessionEnded
from advisor.tuners.launching.stacks import last_stack
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.supervision.isolation import Coverage, probe
from advisor.tuners.supervision.process_tree import is_subreaper
from advisor.tuners.trial.messages import TellFacts
from advisor.tuners.trial.spec import Target

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains", "one_thread"),
]


def failure_of(target: Target, folder: Path, *, steps: int = 5) -> tuple[Failure, Path]:
    """What the session of a failing program raises, and its folder."""
    with a_launcher(target, folder) as launcher:
        launcher.limits.start_s, launcher.limits.step_s = 120, 0.001
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
            session.slot(steps)
        assert not session.alive
        return raised.value.failure, session.folder


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("make", [a_script, a_workload])
def test_a_session_runs_slots_until_it_is_stopped(make: Make, tmp_path: Path) -> None:
    with a_launcher(make(tmp_path), tmp_path) as launcher:
        session = launcher.start(1, {}, {})
        assert session.first_step() > 0
        slot = session.slot(5, drop=2)
        assert len(slot.step_s) == 5 and all(seconds > 0 for seconds in slot.step_s)
        outcome = session.stop()
        assert (outcome.state, outcome.failure, outcome.steps) == ("stopped", None, 8)
        assert json.loads((session.folder / "outcome.json").read_text())["state"] == "stopped"
        assert not session.alive and launcher.launches == 1


@pytest.mark.usefixtures("warm_trials")
def test_a_program_that_comes_to_its_end_says_so(tmp_path: Path) -> None:
    with a_launcher(a_script(tmp_path, steps=3), tmp_path) as launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        with pytest.raises(SessionEnded) as ended:
            session.slot(10)
        assert (ended.value.outcome.state, ended.value.outcome.steps) == ("ended", 3)


@pytest.mark.usefixtures("warm_trials")
def test_a_program_that_ended_while_nobody_listened_came_to_its_end(tmp_path: Path) -> None:
    with a_launcher(a_script(tmp_path, steps=3), tmp_path) as launcher:
        session = launcher.start(1, {}, {})
        assert isinstance(session, Session)
        session.first_step()
        session.tell_slot(10, drop=0)

        def refuses() -> bool:
            session.tell(TellFacts())
            return False

        with pytest.raises(SessionEnded) as ended:
            until(refuses)
        assert (ended.value.outcome.state, ended.value.outcome.steps) == ("ended", 3)
        assert session.outcome is not None and not session.alive


@pytest.mark.usefixtures("warm_trials")
def test_an_exception_is_told_with_the_users_frames_alone(tmp_path: Path) -> None:
    failure, _ = failure_of(a_script(tmp_path, "if step == 2: raise ValueError('no such label')"), tmp_path)
    file = tmp_path / "train.py"
    assert (failure.cause, failure.message) == ("user_error", "ValueError: no such label")
    assert failure.where == f"{file}:7"
    assert [line.strip() for line in failure.trace.splitlines() if line.startswith("  File")] == [
        f'File "{file}", line 12, in <module>',
        f'File "{file}", line 7, in at_step',
    ]


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("make", [a_script, a_workload])
def test_a_program_that_leaves_without_a_word_has_ended_without_a_result(make: Make, tmp_path: Path) -> None:
    body = "if step == 2: os._exit(0)" if make is a_script else "if index == 7: os._exit(0)"
    failure, _ = failure_of(make(tmp_path, body), tmp_path, steps=2000)
    assert failure == Failure("user_error", "ended without a result, exit status 0")


@pytest.mark.usefixtures("warm_trials")
def test_a_workload_that_ends_its_process_while_it_is_read_has_no_result(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("import os\nos._exit(3)\n")
    launcher = a_launcher(Target("workload", str(tmp_path / "small.py"), cwd=str(tmp_path)), tmp_path)
    with pytest.raises(TrialFailed) as raised, launcher:
        raise AssertionError("it was loaded")
    assert raised.value.failure == Failure("user_error", "ended without a result, exit status 3")
    assert not is_subreaper()


@pytest.mark.usefixtures("warm_trials")
def test_a_crash_is_named_by_its_signal(tmp_path: Path) -> None:
    failure, _ = failure_of(a_script(tmp_path, "if step == 2: import ctypes; ctypes.string_at(0)"), tmp_path)
    assert failure == Failure("crash_signal", "ended by SIGSEGV")


@pytest.mark.usefixtures("warm_trials")
def test_a_hanging_program_is_ended_and_its_stacks_are_kept(tmp_path: Path) -> None:
    with a_launcher(a_script(tmp_path, "time.sleep(60 if step == 1 else 0)"), tmp_path) as launcher:
        launcher.limits.for_steps = lambda steps: 1.0  # type: ignore[method-assign]  # one minute is the least
        session = launcher.start(1, {}, {})
        session.first_step()
        with pytest.raises(TrialFailed) as raised:
            session.slot(5)
        assert raised.value.failure.cause == "timeout"
        assert "in phase steps" in raised.value.failure.message
        assert "in at_step" in (session.folder / "stacks.txt").read_text()


@pytest.mark.usefixtures("warm_trials")
def test_a_program_that_does_not_start_in_time_is_ended_with_stacks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ndef waits(): time.sleep(60)\nwaits()\n")
    with a_launcher(Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path)), tmp_path) as launcher:
        launcher.limits.start_s = 2.0
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
        assert raised.value.failure.cause == "timeout"
        assert "in phase start" in raised.value.failure.message
        assert last_stack(session.folder)[0] == f"{tmp_path}/train.py:2"


@pytest.mark.usefixtures("warm_trials")
def test_what_fails_before_the_program_begins_is_ours(tmp_path: Path) -> None:
    with a_launcher(a_script(tmp_path), tmp_path) as launcher:
        session = launcher.start(1, {}, {})
        (session.folder / "stacks.txt").mkdir()
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
    failure = raised.value.failure
    assert (failure.cause, failure.where) == ("internal", None)
    assert failure.message.startswith("IsADirectoryError: ")
    assert "in serve" in failure.trace


@pytest.mark.usefixtures("warm_trials")
def test_a_trial_that_cannot_be_isolated_is_no_fault_of_the_program(tmp_path: Path) -> None:
    launcher = a_launcher(a_script(tmp_path), tmp_path)
    launcher.coverage, launcher.scratch = Coverage(("/proc",)), tmp_path / "scratch"
    with launcher:
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
    assert raised.value.failure.cause == "environment"
    assert raised.value.failure.message.endswith("mount an overlay on /proc: Invalid argument")


REMEMBERS = """
from pathlib import Path
def remembers():
    for path in (Path(__file__).with_name("step.txt"), Path("/var/tmp", "{name}")):
        print(path.read_text() if path.exists() else "nothing", end=" ", flush=True)
        path.write_text("changed")
"""


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("make", [a_script, a_workload])
def test_each_trial_starts_from_the_same_files_and_leaves_nothing(make: Make, tmp_path: Path) -> None:
    coverage = probe(tmp_path)
    if isinstance(coverage, str):
        pytest.skip(f"no write isolation here: {coverage}")
    target = make(tmp_path)
    file, elsewhere = Path(target.name), Path("/var/tmp", f"advisor-test-{os.getpid()}")
    program = file.read_text().replace("torch.nn.Linear", "remembers() or torch.nn.Linear")
    file.write_text(REMEMBERS.format(name=elsewhere.name) + program)
    (tmp_path / "step.txt").write_text("mine")
    launcher = a_launcher(target, tmp_path)
    launcher.coverage, launcher.scratch = coverage, tmp_path / "scratch"
    logs = []
    with launcher:
        for number in (1, 2):
            session = launcher.start(number, {}, {})
            session.first_step()
            session.stop()
            logs.append((session.folder / "stdout.log").read_text())
            assert list((tmp_path / "scratch").iterdir()) == []
    assert logs == ["mine nothing ", "mine nothing "]
    assert (tmp_path / "step.txt").read_text() == "mine"
    assert not elsewhere.exists()


@pytest.mark.usefixtures("warm_trials")
def test_a_knob_that_neither_acts_nor_refuses_is_not_applied(tmp_path: Path) -> None:
    with a_launcher(a_script(tmp_path), tmp_path) as launcher:
        session = launcher.start(1, {"num_workers": 2}, {"num_workers": 0})
        session.first_step()
        with pytest.raises(TrialFailed) as raised:
            session.slot(3)
    assert raised.value.failure == Failure("not_applied", "neither applied nor refused: num_workers")


@pytest.mark.usefixtures("warm_trials")
def test_a_refused_knob_is_told_with_its_reason(tmp_path: Path) -> None:
    asked = {"optimizer_implementation": "fused"}
    target = a_script(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(
        script.read_text().replace("SGD(model.parameters(), lr=0.1)", "Rprop(model.parameters())")
    )
    with a_launcher(target, tmp_path) as launcher:
        session = launcher.start(1, asked, {"optimizer_implementation": "default"})
        session.first_step()
        session.slot(3)
        assert session.last.refused == {"optimizer_implementation": "Rprop has no fused form"}
        session.kill()


@pytest.mark.parametrize("make", [a_script, pytest.param(a_workload, marks=pytest.mark.long)])
def test_a_setting_of_the_environment_reaches_every_process_that_has_it(
    make: Make, tmp_path: Path, warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote, "subprocess", WarmSubprocess(warm))
    with a_launcher(make(tmp_path), tmp_path) as launcher:
        session = launcher.start(0, {"malloc": "libc-tuned"}, {})
        session.first_step()
        session.slot(3)
        assert (session.last.applied, session.last.refused) == (("malloc",), {})
        session.kill()
