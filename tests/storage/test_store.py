"""What a store keeps, for whom, and what Optuna sees of it."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from result_builder import a_result
from supervised import until
from warm import Warm

from advisor.base.errors import EnvironmentProblem, NoValidTrial, UsageError
from advisor.profiles.facts.machine import Machine
from advisor.result.document import Trial
from advisor.storage.storage_url import DEFAULT_STORAGE, StorageUrl, parse_storage
from advisor.storage.store import Store, StoredComparison, StoredStudy, StudySummary

CONTRACT = {"target": "train.py", "objective": "goodput"}


def silent(text: str) -> None:
    """Nobody waits in these tests."""
    raise AssertionError(text)


def opened(url: StorageUrl) -> Store:
    return Store.open(url, create=True, warn=silent)


def a_trial(number: int, **changes: Any) -> Trial:
    return Trial.model_validate({"number": number, "config": {"num_workers": number}, **changes})


def keep(store: Store, trial: Trial, study: str = "train", **more: Any) -> None:
    store.record(study, trial, **more)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StorageUrl:
    monkeypatch.chdir(tmp_path)
    return parse_storage(DEFAULT_STORAGE)


@pytest.fixture
def store(url: StorageUrl) -> Iterator[Store]:
    with opened(url) as store:
        store.create_study("train", CONTRACT)
        yield store


def test_a_study_is_read_back_as_it_was_begun(store: Store) -> None:
    study = store.load_study("train")
    assert study is not None
    assert study == StoredStudy("train", study.created, "train.py", CONTRACT, "running")
    assert store.load_study("other") is None


def test_a_name_is_used_once(store: Store) -> None:
    with pytest.raises(UsageError, match="there is a study 'train' already"):
        store.create_study("train", {})
    assert store.unused_name("train") == "train-2"
    store.create_study("train-2", {})
    assert store.unused_name("train") == "train-3"
    assert store.unused_name("free") == "free"


def test_a_name_that_could_do_harm_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="use letters, digits"):
        store.create_study("'; DROP TABLE advisor_studies; --", {})
    assert store.names() == ["train"]


def test_an_unknown_study_is_refused_with_near_names(store: Store) -> None:
    with pytest.raises(UsageError) as refused:
        store.require_study("trian")
    assert (refused.value.message, refused.value.hint) == (
        "no study 'trian'", "nearest: train; `advisor studies` lists all",
    )  # fmt: skip


def test_trials_are_read_back_whole_and_by_number(store: Store) -> None:
    late = a_trial(2, state="failed", cause="oom_device", message="</script>\udcff\x00'; DROP", marks=["m"])
    early = a_trial(
        1, step_ms={"estimate": 1.5, "low": 1.0, "high": 2.0}, throughput={"estimate": 1, "low": 1, "high": 1}
    )
    keep(store, late)
    keep(store, early)
    assert store.trials("train") == [early, late]


def test_recording_twice_keeps_the_last(store: Store) -> None:
    keep(store, a_trial(1))
    keep(store, a_trial(1, marks=["throttled"]))
    assert store.trials("train") == [a_trial(1, marks=["throttled"])]


def test_a_trial_of_no_study_is_not_kept(store: Store) -> None:
    with pytest.raises(EnvironmentProblem):
        keep(store, a_trial(1), study="nobody")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_only_finite_values_are_kept_for_optuna(store: Store, value: float) -> None:
    with pytest.raises(ValueError, match="the value of trial 1 is"):
        keep(store, a_trial(1), value=value)
    assert store.trials("train") == []


def test_a_trial_that_only_began_has_no_outcome_but_keeps_its_number(store: Store) -> None:
    store.begin("train", 4, {"num_workers": 4})
    assert store.trials("train") == []
    assert store.next_number("train") == 5
    keep(store, a_trial(4))
    assert store.trials("train") == [a_trial(4)]


def test_an_interrupted_trial_is_killed_when_the_study_is_resumed(store: Store) -> None:
    keep(store, a_trial(0, stage="baseline"))
    store.begin("train", 1, {"num_workers": 1})
    killed = a_trial(1, state="failed", cause="killed", message="the tuner ended during this trial")
    assert store.reap("train") == [killed]
    assert store.trials("train") == [a_trial(0, stage="baseline"), killed]
    assert store.reap("train") == []


def test_machine_profile_comparisons_and_result_are_kept(store: Store) -> None:
    machine = Machine(cpus_allowed=2, physical_cores=2, memory_bytes=2**33, shm_bytes=0)
    store.save_machine(machine)
    store.save_machine(machine)
    store.save_profile("train", {"step_ms": 1.0})
    store.save_profile("train", {"step_ms": 2.0})
    store.save_comparison("train", 1, "screen", {"ratios": [1.1, 1.2]})
    store.save_comparison("train", 1, "confirm", {"ratios": [1.3]})
    store.save_result("train", a_result())
    assert store.profile("train") == {"step_ms": 2.0}
    assert store.profile("train", "winner") is None
    assert store.comparisons("train") == [
        StoredComparison(1, "screen", {"ratios": [1.1, 1.2]}),
        StoredComparison(1, "confirm", {"ratios": [1.3]}),
    ]
    assert store.result("train") == store.require_result("train") == a_result()


def test_numbers_that_json_does_not_know_are_no_profile(store: Store) -> None:
    with pytest.raises(Exception, match="not JSON compliant"):
        store.save_profile("train", {"step_ms": float("nan")})
    assert store.profile("train") is None


def test_a_study_without_a_result_says_how_its_baseline_ended(store: Store) -> None:
    with pytest.raises(NoValidTrial) as nothing:
        store.require_result("train")
    assert nothing.value.message == "nothing measured yet"
    keep(store, a_trial(0, stage="baseline", state="failed", cause="oom_device"))
    with pytest.raises(NoValidTrial) as failed:
        store.require_result("train")
    assert failed.value.message == "nothing measured yet (baseline failed: oom_device)"
    assert failed.value.exit_code == 4


def test_the_list_of_studies_counts_trials_and_names_the_verdict(store: Store) -> None:
    store.create_study("other", {})
    keep(store, a_trial(0))
    keep(store, a_trial(1))
    store.begin("train", 2, {})
    result = a_result()
    store.save_result("train", result)
    store.mark_status("train", "complete")
    created = {study.name: study.created for study in store.studies()}
    assert sorted(store.studies(), key=lambda study: study.name) == [
        StudySummary("other", created["other"], "", 0, None, "running"),
        StudySummary("train", created["train"], "train.py", 2, result.recommendation.verdict, "complete"),
    ]


def test_a_database_in_memory_holds_studies_and_optunas_tables() -> None:
    with opened(parse_storage("sqlite://")) as store:
        store.create_study("train", CONTRACT)
        study = store.optuna_study("train", None)
        study.tell(study.ask(), 1.0)
        assert [trial.value for trial in study.trials] == [1.0]
        assert store.names() == ["train"]


def modes(folder: Path) -> dict[str, str]:
    paths = [folder, *folder.iterdir()]
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in paths}


def test_only_the_owner_can_read_what_is_stored(store: Store, tmp_path: Path) -> None:
    assert modes(tmp_path / ".advisor") == {
        ".advisor": "0o700", "studies.db": "0o600", "studies.db-wal": "0o600", "studies.db-shm": "0o600",
        "studies.db.lock": "0o600",
    }  # fmt: skip


def test_a_file_that_vanishes_while_in_use_is_noticed_before_a_trial_is_acknowledged(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / ".advisor" / "studies.db").unlink()
    with pytest.raises(EnvironmentProblem, match="was removed or replaced while in use"):
        keep(store, a_trial(1))


# Optuna


def test_optuna_reads_its_study_by_the_plain_url(store: Store, tmp_path: Path) -> None:
    import optuna

    study = store.optuna_study("train", optuna.samplers.RandomSampler(seed=0), "minimize")
    trial = study.ask()
    trial.suggest_categorical("num_workers", [0, 1, 2])
    study.tell(trial, 1.25)
    elsewhere = optuna.load_study(study_name="train", storage=f"sqlite:///{tmp_path}/.advisor/studies.db")
    assert [one.value for one in elsewhere.trials] == [1.25]
    assert elsewhere.direction.name == "MINIMIZE"
    assert [one.value for one in store.optuna_study("train", None, "minimize").trials] == [1.25]


def test_another_direction_is_refused(store: Store) -> None:
    store.optuna_study("train", None, "minimize")
    with pytest.raises(UsageError, match="study 'train' is to minimize, not to maximize"):
        store.optuna_study("train", None, "maximize")


def test_trials_that_optuna_believes_running_are_told_what_is_known(store: Store) -> None:
    study = store.optuna_study("train", None)
    for _ in range(3):
        study.ask()
    study.tell(0, 3.0)
    keep(store, a_trial(1), asked=1, value=2.5)
    store.begin("train", 2, {"num_workers": 2})
    assert [trial.number for trial in store.reap("train")] == [2]
    told = [(trial.state.name, trial.value) for trial in store.optuna_study("train", None).trials]
    assert told == [("COMPLETE", 3.0), ("COMPLETE", 2.5), ("FAIL", None)]


def test_what_optuna_calls_invalid_data_is_told_plainly(store: Store, tmp_path: Path) -> None:
    study = store.optuna_study("train", None)
    connection = sqlite3.connect(tmp_path / ".advisor" / "studies.db")
    connection.execute("DROP TABLE trial_system_attributes")
    connection.execute("DROP TABLE trials")
    connection.close()
    with pytest.raises(EnvironmentProblem) as failed, store.guarded():
        study.ask()
    assert failed.value.message == ".advisor/studies.db cannot be used"
    assert failed.value.cause == "no such table: trials"


# Several processes


def run_python(program: str, *arguments: str, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


HEADER = """
import sys, time
from advisor.result.document import Trial
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
"""

START = (
    HEADER
    + """
import optuna
while time.time() < float(sys.argv[2]): time.sleep(0.001)
with Store.open(parse_storage("sqlite:///.advisor/studies.db"), create=True, warn=print) as store:
    store.create_study(sys.argv[1], {})
    study = store.optuna_study("shared", None)
    study.tell(study.ask(), 1.0)
"""
)


@pytest.mark.slow
def test_many_processes_start_at_once_on_nothing(url: StorageUrl, warm: Warm) -> None:
    begin = str(time.time() + 1)
    processes = [warm.start("-c", START, f"s{n}", begin) for n in range(8)]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * 8, ended
    with opened(url) as store:
        assert store.names() == [f"s{n}" for n in range(8)]
        assert len(store.optuna_study("shared", None).trials) == 8


WRITE = (
    HEADER
    + """
with Store.open(parse_storage("sqlite:///.advisor/studies.db"), create=True, warn=print) as store:
    store.claim("train")
    store.reap("train")
    number = store.next_number("train")
    while True:
        store.begin("train", number, {"n": number})
        store.record("train", Trial(number=number, config={"n": number}, message="x" * 3000))
        print(number, flush=True)
        number += 1
"""
)


@pytest.mark.slow
def test_no_acknowledged_trial_is_lost_when_the_writer_is_killed(url: StorageUrl, warm: Warm) -> None:
    with opened(url) as store:
        store.create_study("train", CONTRACT)
    acknowledged: set[int] = set()
    for attempt in range(8):
        writer = warm.start("-c", WRITE)
        until(lambda: "\n" in writer.said()[0], 30.0)  # noqa: B023  used at once
        time.sleep(0.013 * attempt)
        writer.kill()
        acknowledged |= {int(line) for line in writer.communicate()[0].splitlines() if line.isdigit()}
        with sqlite3.connect(url.path or "") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with opened(url) as store:
        assert [study.status for study in store.studies()] == ["interrupted"]
        store.claim("train")
        store.reap("train")
        complete = {trial.number for trial in store.trials("train") if trial.state == "complete"}
        killed = [trial for trial in store.trials("train") if trial.state == "failed"]
    assert len(acknowledged) >= 8
    assert acknowledged <= complete
    assert len(killed) <= 8 and all(trial.cause == "killed" for trial in killed)


CLAIM = (
    HEADER
    + """
with Store.open(parse_storage("sqlite:///.advisor/studies.db"), create=False, warn=print) as store:
    store.claim("train")
    print("claimed", flush=True)
    sys.stdin.read()
"""
)


def test_one_living_process_tunes_a_study(store: Store, url: StorageUrl, tmp_path: Path) -> None:
    other = run_python(CLAIM, folder=tmp_path)
    assert other.stdout is not None and other.stdout.readline() == "claimed\n"
    with pytest.raises(EnvironmentProblem, match=f"study 'train' is being tuned by process {other.pid}"):
        store.claim("train")
    assert [study.status for study in store.studies()] == ["running"]
    os.kill(other.pid, signal.SIGKILL)
    other.communicate()
    assert [study.status for study in store.studies()] == ["interrupted"]
    store.claim("train")
    assert [study.status for study in store.studies()] == ["running"]


def test_a_study_may_be_claimed_before_it_is_created(store: Store, url: StorageUrl, tmp_path: Path) -> None:
    program = (
        HEADER
        + """
with Store.open(parse_storage("sqlite:///.advisor/studies.db"), create=False, warn=print) as store:
    store.claim("new")
    store.create_study("new", {})
    print("created", flush=True)
    sys.stdin.read()
"""
    )
    other = run_python(program, folder=tmp_path)
    assert other.stdout is not None and other.stdout.readline() == "created\n"
    with pytest.raises(EnvironmentProblem, match=f"study 'new' is being tuned by process {other.pid}"):
        store.claim("new")
    other.communicate("")
    store.claim("new")


def test_listing_studies_and_reading_results_imports_nothing_heavy(store: Store, tmp_path: Path) -> None:
    store.save_result("train", a_result())
    program = (
        HEADER
        + """
with Store.open(parse_storage("sqlite:///.advisor/studies.db"), create=False, warn=print) as store:
    print(len(store.studies()), store.require_result("train").recommendation.verdict, store.trials("train"))
print(sorted({"torch", "optuna", "scipy"} & set(sys.modules)))
"""
    )
    output, errors = run_python(program, folder=tmp_path).communicate()
    assert (output, errors) == (f"1 {a_result().recommendation.verdict} []\n[]\n", "")
