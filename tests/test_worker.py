"""Workers of one study: what they take, what they refuse, and how they are told apart."""

import json
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from postgresql import a_database
from result_builder import a_result
from scripted_worker import ScriptedBench, a_machine, a_worker
from worker_processes import ended, is_measuring, opened, rows_in, started, states, wait_until

from advisor.errors import EnvironmentProblem, NoValidTrial, UsageError
from advisor.lease_tables import leases
from advisor.lease_times import VARIABLE, LeaseTimes
from advisor.result import Trial
from advisor.tuners.knob import Value
from advisor.tuners.record import TrialRecord

CLUSTER = Path(__file__).parents[1] / "docs" / "cluster.md"
SMALL: dict[str, list[Value]] = {"alpha": [0, 1, 2], "beta": [0, 1]}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.db'}"


def hostile(url: str, fingerprint: str, config: Any) -> None:
    """A row that somebody else wrote into the shared database."""
    with opened(url) as store, store.database.writing() as connection:
        connection.execute(
            leases.insert().values(
                study="train", fingerprint=fingerprint, number=900, attempt=1, fence=0, state="queued",
                key="hostile", config=config, told=False,
            )
        )  # fmt: skip


def test_a_worker_begins_a_study_measures_its_space_and_reports_the_best(target: Path, url: str) -> None:
    bench = ScriptedBench(choices=SMALL)
    report = a_worker(url, "train", target, bench).run()
    assert (report.trials, report.stopped_by, bench.closed) == (6, "converged", True)
    assert report.best is not None and report.best.config == {"alpha": 2, "beta": 0}
    assert states(url) == ["COMPLETE"] * 6
    with opened(url) as store:
        (group,) = store.require_result("train").groups
        assert (group.trials, group.best and group.best.config) == (6, {"alpha": 2, "beta": 0})
        assert [study.status for study in store.studies()] == ["complete"]


def test_a_second_worker_goes_on_where_the_first_one_ended(target: Path, url: str) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=2).run()
    second = ScriptedBench(choices=SMALL)
    assert a_worker(url, "train", target, second, create=False).run().trials == 4
    assert len({json.dumps(config) for config in second.run}) == 4


@pytest.mark.parametrize(
    "config",
    [
        {"alpha": 2, "beta": 0, "command": "rm -rf ~"},
        {"alpha": 2},
        {"alpha": 99, "beta": 0},
        {"alpha": True, "beta": 0},
        {"alpha": "../../etc/passwd", "beta": 0},
        ["alpha", 2],
        "alpha",
    ],
    ids=["unknown knob", "missing knob", "outside", "other type", "path", "list", "text"],
)
def test_a_foreign_configuration_is_refused_recorded_and_never_run(
    target: Path, url: str, config: Any
) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    hostile(url, a_machine().fingerprint, config)
    bench = ScriptedBench(choices=SMALL)
    report = a_worker(url, "train", target, bench).run()
    assert (report.refused, report.trials) == (1, 5)
    assert config not in bench.run
    with opened(url) as store:
        rows = [row for row in rows_in(store) if row.number == 900]
    assert [(row.state, row.data["message"].split(":")[0]) for row in rows] == [("pruned", "refused")]


def test_machines_of_two_kinds_have_groups_of_their_own(target: Path, server: str) -> None:
    url = a_database(server, f"groups{time.monotonic_ns()}")
    for model in ("one", "other"):
        bench = ScriptedBench(a_machine(model), choices=SMALL)
        assert a_worker(url, "train", target, bench).run().trials == 6  # none was measured for it before
    with opened(url) as store:
        groups = store.require_result("train").groups
    assert [group.trials for group in groups] == [6, 6]
    assert {group.machine.split(",")[0] for group in groups} == {"one", "other"}


def as_role(url: str, role: str, statements: str = "") -> str:
    """The URL for another role, which runs the statements first."""
    import psycopg

    theirs = url.replace("postgres:@", f"{role}@")
    if statements:
        with psycopg.connect(theirs, autocommit=True) as connection:
            connection.execute(statements.encode())
    return theirs


def test_with_the_documented_rights_a_worker_needs_none_to_make_tables(target: Path, server: str) -> None:
    import psycopg

    at_first, of_setup, at_last = re.findall(r"```sql\n(.*?)```", CLUSTER.read_text(), re.DOTALL)
    url = a_database(server, "rights")
    as_role(url, "postgres", "CREATE ROLE owner LOGIN CREATEROLE; ALTER DATABASE rights OWNER TO owner")
    as_role(url, "owner", at_first)
    made = as_role(url, "advisor_setup")
    a_worker(made, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    as_role(url, "advisor_setup", of_setup)
    as_role(url, "owner", at_last)
    theirs = as_role(url, "advisor_worker")
    other = ScriptedBench(a_machine("other"), choices=SMALL)
    assert a_worker(theirs, "train", target, other, create=False).run().trials == 6
    for address in (made, theirs):
        with psycopg.connect(address) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE mine (a int)")


def test_sqlite_serves_one_machine(target: Path, url: str) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    other = a_worker(url, "train", target, ScriptedBench(a_machine("other"), choices=SMALL))
    with pytest.raises(UsageError, match="SQLite serves one machine"):
        other.run()


def test_another_program_or_arguments_are_refused_with_all_differences(target: Path, url: str) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    target.write_text("import os\n")
    bench = ScriptedBench(choices=SMALL)
    with pytest.raises(UsageError, match="2 differences") as refused:
        a_worker(url, "train", target, bench, args=("--fast",)).run()
    assert "file train.py" in str(refused.value) and "--fast" in str(refused.value)
    assert bench.run == []


def test_a_worker_that_finds_other_choices_on_a_machine_of_the_same_kind_joins(
    target: Path, url: str
) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    other = ScriptedBench(choices={"alpha": [0, 1], "beta": [0, 1]})
    assert a_worker(url, "train", target, other, trials=2).run().trials >= 1


def test_a_program_that_is_set_otherwise_on_a_like_machine_is_refused(target: Path, url: str) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    other = ScriptedBench(choices={"alpha": [1, 0], "beta": [0, 1]})
    with pytest.raises(UsageError, match="knob alpha"):
        a_worker(url, "train", target, other).run()


def test_a_worker_of_which_something_else_is_asked_is_refused(target: Path, url: str) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    with pytest.raises(UsageError, match="option --knob alpha"):
        a_worker(url, "train", target, ScriptedBench(choices=SMALL), knobs={"alpha": None}).run()


def test_a_study_that_is_not_there_is_only_begun_when_asked(target: Path, url: str) -> None:
    a_worker(url, "other", target, ScriptedBench(choices=SMALL), trials=1).run()
    with pytest.raises(UsageError, match="no study 'train'"):
        a_worker(url, "train", target, ScriptedBench(), create=False).run()


def test_failures_keep_their_cause_and_a_group_of_nothing_else_says_so(target: Path, url: str) -> None:
    bench = ScriptedBench(choices={"alpha": [0, 1], "beta": [1]}, failing=1)
    with pytest.raises(NoValidTrial, match="all 2 trials failed: oom_device"):
        a_worker(url, "train", target, bench).run()
    assert states(url) == ["FAIL", "FAIL"]


def test_a_result_of_a_tuner_is_not_replaced(target: Path, url: str) -> None:
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    with opened(url) as store:
        store.save_result("train", a_result())
    a_worker(url, "train", target, ScriptedBench(choices=SMALL), trials=1).run()
    with opened(url) as store:
        assert store.require_result("train").command == a_result().command


class CuttingBench(ScriptedBench):
    """From its first measurement on nothing reaches the database."""

    away = False

    def measure(self, record: TrialRecord, deadline: float) -> Trial:
        self.away = True
        return super().measure(record, deadline)


@dataclass
class CutCalls:
    """Calls that fail once the bench says so."""

    calls: Any
    bench: CuttingBench

    def __call__(self, action: Any) -> Any:
        if self.bench.away:
            raise EnvironmentProblem("the database does not answer", code="storage")
        return self.calls(action)

    def close(self) -> None:
        self.calls.close()


def test_what_waits_in_the_spool_is_delivered_by_the_next_worker(target: Path, url: str) -> None:
    bench = CuttingBench(choices=SMALL)
    worker = a_worker(url, "train", target, bench, trials=1)
    worker._calls = CutCalls(worker._calls, bench)  # type: ignore[assignment]  # as far as it is used here
    with pytest.raises(EnvironmentProblem) as lost:
        worker.run()
    assert lost.value.exit_code == 5 and "1 results are safe in" in str(lost.value.hint)
    assert str(worker._spool.path) in str(lost.value.hint)
    rest = a_worker(url, "train", target, ScriptedBench(choices=SMALL)).run()
    assert rest.trials == 5 and rest.lost == 0
    assert states(url) == ["COMPLETE"] * 6


def test_a_stopped_worker_loses_its_lease_and_its_late_result(target: Path, url: str) -> None:
    times = {VARIABLE: "period_s=1,expiry_s=3"}
    slow = started(url, target, "--trials", "1", "--seconds", "4", **times)
    try:
        wait_until(lambda: is_measuring(url))
        slow.send_signal(signal.SIGSTOP)
        quick = a_worker(url, "train", target, ScriptedBench(), trials=3, times=LeaseTimes(0.2, 1.0, 30, 60))
        wait_until(lambda: _reaped(url) == [1])
        report = quick.run()
        slow.send_signal(signal.SIGCONT)
        code, out, err = ended(slow)
    finally:
        slow.kill()
    assert (code, json.loads(out)["lost"]) == (0, 1), err
    assert report.lost == 0
    with opened(url) as store:
        rows = {row.number: row for row in rows_in(store)}
    assert (rows[1].state, rows[1].data["cause"]) == ("failed", "lost_lease")
    assert (rows[2].state, rows[2].attempt, rows[2].key) == ("complete", 2, rows[1].key)
    assert "RUNNING" not in states(url)


def test_a_worker_that_lost_its_lease_ends_the_trial_and_takes_another(target: Path, url: str) -> None:
    times = {VARIABLE: "period_s=0.5,expiry_s=60"}
    slow = started(url, target, "--trials", "1", "--seconds", "15", "--looks", **times)
    try:
        wait_until(lambda: is_measuring(url))
        wait_until(lambda: _expired(url) == [1])
        other = ScriptedBench()
        a_worker(url, "train", target, other, trials=1, times=LeaseTimes(0.5, 60, 30, 60)).run()
        code, out, err = ended(slow)
    finally:
        slow.kill()
    assert (code, json.loads(out)) == (0, {"trials": 1, "lost": 1, "stopped_by": "trials"}), err
    assert "trial 1 is another worker's now; it was ended here" in err
    with opened(url) as store:
        rows = {row.number: row for row in rows_in(store)}
    assert rows[1].state == "failed" and rows[1].data["cause"] == "lost_lease"
    assert (rows[2].state, rows[2].attempt, rows[2].config) == ("complete", 2, rows[1].config)
    assert (rows[3].state, rows[3].attempt) == ("complete", 1)


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sixteen_workers_at_once_start_on_an_empty_database(
    target: Path, url: str, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "postgresql":
        url = a_database(request.getfixturevalue("server"), f"sixteen{time.monotonic_ns()}")
    workers = [started(url, target, "--trials", "1") for _ in range(16)]
    try:
        results = [ended(worker) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [code for code, _, _ in results] == [0] * 16, [err for code, _, err in results if code]
    with opened(url) as store:
        rows = rows_in(store)
    assert len(rows) == 16 == len({row.key for row in rows})
    assert {row.state for row in rows} == {"complete"}
    assert states(url) == ["COMPLETE"] * 16


def _reaped(url: str) -> list[int]:
    """What expires while its worker is stopped, seen by a reaper with that worker's times."""
    from advisor.leases import TrialLeases

    with opened(url) as store:
        group = TrialLeases(store.database, "train", a_machine().fingerprint, LeaseTimes(0.2, 1.0))
        return group.reap()


def _expired(url: str) -> list[int]:
    """What is reaped as though its worker had not been heard of for long; it may renew in between."""
    with opened(url) as store, store.database.writing() as connection:
        connection.execute(leases.update().where(leases.c.state == "running").values(expires=0.0))
    return _reaped(url)


def test_no_worker_is_left(target: Path) -> None:
    marked = [one for one in psutil.process_iter(["cmdline"]) if str(target) in (one.info["cmdline"] or [])]
    assert marked == []
