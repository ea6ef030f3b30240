"""What must hold after every fault, whatever it was; one function for all cases."""

import json
import shutil
import sqlite3
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import optuna
import psutil
from supervised import marked

from advisor.report.files import render_html
from advisor.result.document import Trial
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
from advisor.tuners.supervision.failures import Cause

GONE_S = 10.0  # after which no process of ours may live
EXIT_CODES = frozenset({0, 1, 2, 3, 4, 5, 130, 143})
CAUSES = frozenset(get_args(Cause))
OURS = (".advisor", "advisor-report", "tmp", "hits", "acknowledged", "train.py")  # in a folder of a case


@dataclass(frozen=True)
class Kept:
    """What a study holds when nothing runs any more.

    Attributes:
        trials: All that ended, by number, after one pass of the reaper.
        configs: Keys of the configurations with a complete trial.
        verdict: Of its result, if there is one.
    """

    trials: dict[int, Trial]
    configs: frozenset[str] = frozenset()
    verdict: str | None = None


def check(
    folder: Path,
    *,
    mark: str,
    code: int,
    study: str = "s",
    codes: Collection[int] = EXIT_CODES,
    scratch: bool = False,
) -> Kept:
    """Make sure that a fault has left nothing behind and lost nothing.

    Args:
        folder: Where the command ran; its database lies in ``.advisor``.
        mark: Of all processes of the case.
        code: How it ended.
        study: Its study.
        codes: Allowed ends.
        scratch: It was killed and could not remove its own temporary folder.
    """
    wait_until_gone(mark)  # (a)
    assert code in codes, f"exit code {code}"  # (e)
    unexpected = {entry.name for entry in folder.iterdir()} - set(OURS)  # (f)
    assert not unexpected, unexpected
    if not scratch and (folder / "tmp").exists():
        assert not [each.name for each in (folder / "tmp").iterdir() if not each.name.endswith(".log")]
    acknowledged = read_acknowledged(folder)
    if not (folder / ".advisor" / "studies.db").exists():
        assert not acknowledged
        return Kept({})
    return _check_copy(folder, study, acknowledged)


def wait_until_gone(mark: str) -> None:
    """No descendant is left; a kill takes a moment to reach all."""
    deadline = time.monotonic() + GONE_S
    while marked(mark):
        assert time.monotonic() < deadline, [process.cmdline() for process in marked(mark)]
        time.sleep(0.05)


def supervisors(mark: str) -> list[psutil.Process]:
    """The supervisors of the trials that run."""
    return [
        process for process in marked(mark) if "advisor.tuners.supervision.supervise" in process.cmdline()
    ]


def read_acknowledged(folder: Path) -> dict[int, tuple[str, str]]:
    """State and key of each trial whose recording returned, the last of each number."""
    file = folder / "acknowledged"
    rows = [line.split(" ", 2) for line in file.read_text().splitlines()] if file.exists() else []
    return {int(number): (state, key) for number, state, key in rows}


def _check_copy(folder: Path, study: str, acknowledged: dict[int, tuple[str, str]]) -> Kept:
    """The rest on a copy, so that the reaper's pass here is not the one that a resumed study needs."""
    copy = folder.parent / f"{folder.name}-copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(mode=0o700)
    for file in (folder / ".advisor").glob("studies.db*"):
        if not file.name.endswith(".lock"):
            shutil.copy2(file, copy)
    try:
        return _check_database(copy / "studies.db", study, acknowledged)
    finally:
        shutil.rmtree(copy)


def _check_database(file: Path, study: str, acknowledged: dict[int, tuple[str, str]]) -> Kept:
    with sqlite3.connect(file) as connection:  # (b)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    with Store.open(parse_storage(f"sqlite:///{file}"), create=True, warn=print) as store:
        if store.load_study(study) is None:
            assert not acknowledged
            return Kept({})
        store.claim(study)
        store.reap(study)
        trials = {trial.number: trial for trial in store.trials(study)}
        for number, (state, _) in acknowledged.items():  # (c)
            assert trials[number].state == state
        assert all(trial.cause in CAUSES for trial in trials.values() if trial.state == "failed")  # (e)
        _check_optuna(file, study)  # (d)
        complete = {key for key, trial, _ in store.finished(study) if trial.state == "complete"}
        result = store.result(study)
        if result is not None:  # (g)
            assert "</html>" in render_html(result)
        verdict = None if result is None else result.recommendation.verdict
        return Kept(trials, frozenset(complete), verdict)


def _check_optuna(file: Path, study: str) -> None:
    """No trial is left running, and what Optuna was told is what was recorded of that configuration."""
    with sqlite3.connect(file) as connection:
        rows = connection.execute("select asked, value, key, finished from advisor_trials").fetchall()
        tables = {name for (name,) in connection.execute("select name from sqlite_master")}
    connection.close()
    assert all(finished for *_, finished in rows)
    if "trials" not in tables:
        return
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
    names = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
    if study not in names:
        return
    recorded = {asked: (value, key) for asked, value, key, _ in rows if asked is not None}
    for trial in optuna.load_study(study_name=study, storage=storage).trials:
        assert trial.state.is_finished(), (trial.number, trial.state)
        if trial.number in recorded and trial.value is not None:
            value, key = recorded[trial.number]
            assert trial.value == value
            assert trial.params.items() <= json.loads(key).items()
    storage.engine.dispose()
