"""Who runs which trial, on both kinds of database; no time is that of a worker's clock."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import a_database

from advisor.announcing import UNLISTED, announce, settle
from advisor.contract import Value
from advisor.groups import group_trials, read_groups
from advisor.lease_times import VARIABLE, LeaseTimes
from advisor.leases import TrialLeases
from advisor.storage_url import parse_storage
from advisor.store import Store

TIMES = LeaseTimes(period_s=30, expiry_s=60)
CONFIG: dict[str, Value] = {"alpha": 1, "beta": 0}
CHOICES: dict[str, list[Value]] = {"alpha": [0, 1], "beta": [0]}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'studies.db'}"
    else:
        url = a_database(request.getfixturevalue("server"), f"leases{time.monotonic_ns()}")
    with Store.open(parse_storage(url), create=True, warn=lambda text: None) as opened:
        opened.create_study("train", {"target": "train.py"})
        yield opened


def a_group(store: Store, times: LeaseTimes = TIMES, fingerprint: str = "f1") -> TrialLeases:
    group = TrialLeases(store.database, "train", fingerprint, times)
    group.register("a machine", {})
    return group


def expired(store: Store) -> TrialLeases:
    """The same group for one to whom every lease has expired, and the server has been up for long."""
    return TrialLeases(store.database, "train", "f1", LeaseTimes(expiry_s=0.001))


def test_a_configuration_is_taken_once(store: Store) -> None:
    group = a_group(store)
    first = group.begin("a", CONFIG, "k")
    assert first is not None and (first.number, first.fence, first.config) == (1, 1, CONFIG)
    assert group.begin("b", CONFIG, "k") is None
    assert group.keys() == {"k"}


def test_a_lease_that_is_renewed_is_not_lost(store: Store) -> None:
    group = a_group(store)
    lease = group.begin("a", CONFIG, "k")
    assert lease is not None and group.renew(lease)
    assert group.reap() == [] and group.running() == {(1, 1): None}


def test_a_lost_trial_fails_is_queued_once_and_its_late_result_is_dropped(store: Store) -> None:
    quick = a_group(store, LeaseTimes(expiry_s=0.001))
    lease = quick.begin("a", CONFIG, "k")
    assert lease is not None
    time.sleep(0.05)
    assert quick.reap() == [1]
    assert not quick.renew(lease)
    assert quick.record(1, lease.fence, {}, "complete", 1.5) == "lost"
    again = quick.take_queued("b")
    assert again is not None and (again.number, again.attempt, again.config) == (2, 2, CONFIG)
    time.sleep(0.05)
    assert quick.reap() == [2]
    assert quick.take_queued("c") is None
    causes = [trial.cause for trial in group_trials(store.database, "train", "f1")]
    assert causes == ["lost_lease", "lost_lease"]


def test_a_result_is_recorded_once_however_often_it_is_delivered(store: Store) -> None:
    group = a_group(store)
    lease = group.begin("a", CONFIG, "k")
    assert lease is not None
    trial = {"number": 1, "config": CONFIG}
    assert group.record(1, lease.fence, trial, "complete", 1.5) == "recorded"
    assert group.record(1, lease.fence, {"number": 9, "config": {}}, "failed", None) == "already"
    assert group.measured() == [(CONFIG, 1.5)]
    assert group.record(7, 1, trial, "complete", 1.0) == "lost"


def test_a_value_that_is_not_finite_is_never_kept(store: Store) -> None:
    group = a_group(store)
    lease = group.begin("a", CONFIG, "k")
    assert lease is not None
    with pytest.raises(ValueError, match="trial 1 is inf"):
        group.record(1, lease.fence, {}, "complete", float("inf"))


def test_a_clock_of_the_worker_that_is_an_hour_ahead_takes_nothing_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = a_group(store)
    group.begin("a", CONFIG, "k")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    assert group.reap() == []


def test_groups_have_trials_and_baselines_of_their_own(store: Store) -> None:
    one, other = a_group(store), a_group(store, fingerprint="f2")
    for group, value in ((one, 1.1), (other, 9.9)):
        lease = group.begin("a", CONFIG, "k")
        assert lease is not None and lease.number == 1
        ratio = {"estimate": value, "low": value, "high": value}
        group.record(1, 1, {"number": 1, "config": CONFIG, "against_baseline": ratio}, "complete", value)
    assert (one.measured(), other.measured()) == ([(CONFIG, 1.1)], [(CONFIG, 9.9)])
    shown = read_groups(store.database, "train")
    assert [(each.fingerprint, each.trials) for each in shown] == [("f1", 1), ("f2", 1)]
    best = [each.best.against_baseline for each in shown if each.best]
    assert [ratio.estimate for ratio in best if ratio] == [1.1, 9.9]


def test_optuna_is_told_what_was_recorded_and_of_what_was_lost(store: Store) -> None:
    group = a_group(store)
    study = store.optuna_study("train@f1", None)
    kept, lost = group.begin("a", CONFIG, "k"), group.begin("a", {"alpha": 0, "beta": 0}, "l")
    assert kept is not None and lost is not None
    for lease in (kept, lost):
        group.note_asked(lease, announce(study, lease, lease.config, CHOICES))
    assert announce(study, kept, kept.config, CHOICES) == 0  # a second time is the same one
    assert settle(study, group) == 0
    group.record(kept.number, kept.fence, {"number": 1, "config": CONFIG}, "complete", 1.25)
    orphan = group.begin("b", {"alpha": 1, "beta": 1}, "m")
    assert orphan is not None
    announce(study, orphan, {"alpha": 1, "beta": 0}, CHOICES)  # its worker dies before it notes the number
    with store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE advisor_leases SET expires = 0 WHERE state = 'running'")
    never_away = TrialLeases(store.database, "train", "f1", LeaseTimes(expiry_s=0.001))
    assert never_away.reap() == [lost.number, orphan.number]
    assert settle(study, group) == 3
    states = [(trial.state.name, trial.value) for trial in study.trials]
    assert states == [("COMPLETE", 1.25), ("FAIL", None), ("FAIL", None)]
    assert settle(study, group) == 0 and group.untold() == []


def test_times_are_shortened_by_a_variable_for_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LeaseTimes.from_environment() == LeaseTimes(30, 90, 30, 300)
    monkeypatch.setenv(VARIABLE, "period_s=0.5,expiry_s=2")
    assert LeaseTimes.from_environment() == LeaseTimes(0.5, 2, 30, 300)
    monkeypatch.setenv(VARIABLE, "period_s=never")
    with pytest.raises(ValueError, match="is no time of a lease"):
        LeaseTimes.from_environment()


def test_workers_on_like_machines_may_find_other_choices_and_optuna_is_told_of_all(store: Store) -> None:
    group, study = a_group(store), store.optuna_study("train@f1", None)
    found: list[tuple[Value, list[Value]]] = [(0, [0, 1]), (1, [1, 0]), (2, [0, 1, 2])]
    for alpha, values in found:
        lease = group.begin("a", {"alpha": alpha, "beta": 0}, f"k{alpha}")
        assert lease is not None
        announce(study, lease, lease.config, {"alpha": values, "beta": [0]})
    assert [trial.params for trial in study.trials] == [
        {"alpha": 0, "beta": 0},
        {"alpha": 1, "beta": 0},
        {"beta": 0},
    ]
    assert [trial.user_attrs.get(UNLISTED) for trial in study.trials] == [None, None, {"alpha": 2}]
