"""Logs of a run without a storage stay where somebody may want to read them, and only there."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from result_builder import a_result

from advisor.base.settings import Settings, TargetRequest
from advisor.result.document import ResultData, Trial
from advisor.stages.study import Study

FAILED = Trial(number=1, config={}, stage="search", state="failed", cause="oom_host", message="out of memory")


def left(result: ResultData | None, *, logs: bool = True) -> bool:
    """Whether the folder is left of a run that came to this result, or to none, and wrote ``logs``."""
    with ExitStack() as stack:
        settings = Settings(target=TargetRequest(kind="script", name="train.py"), storage=None)
        study = Study.open(settings, stack, warn=pytest.fail)
        if logs:
            (study.folder / "stderr.log").write_text("said\n")
        if result is not None:
            study.save(result)
    return study.folder.exists()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_logs_of_a_run_in_which_nothing_failed_go_with_it(tmp_path: Path) -> None:
    assert not left(a_result(trials=[]))
    assert not list(tmp_path.iterdir())


def test_logs_of_a_trial_that_failed_stay() -> None:
    assert left(a_result(trials=[FAILED]))


def test_logs_of_a_run_that_came_to_no_result_stay() -> None:
    assert left(None)


def test_nothing_stays_of_a_run_that_came_to_no_result_and_wrote_no_log(tmp_path: Path) -> None:
    assert not left(None, logs=False)
    assert not list(tmp_path.iterdir())
