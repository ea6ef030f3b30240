"""What other processes took of the machine, told by counters that go on in ticks of 10 ms."""

import os

import pytest

from advisor.stages.diagnosing.watched import host_of, joined_observations
from advisor.tuners.trial.look_messages import Observed
from advisor.tuners.trial.slot import busy_ticks
from advisor.tuners.trial.tasks import other_cpus


def observed(cpus: float | None, seconds: float) -> Observed:
    return Observed((10**6,), 0, (0,), {}, {}, False, seconds, cpus, ((0, 0), (0, 0)))


def test_a_window_of_few_ticks_tells_no_load() -> None:
    assert other_cpus(0.02, 0.0015) is None  # two ticks in it would be 13 CPUs
    assert other_cpus(0.02, 0.15) is None
    assert other_cpus(0.0, 0.15) is None


def test_no_more_cpus_are_busy_than_there_are() -> None:
    cpus = os.cpu_count() or 1
    assert other_cpus(0.5, 1.0) == 0.5
    assert other_cpus(-0.01, 1.0) == 0.0
    assert other_cpus(1.02 * cpus, 1.0) == cpus


def test_windows_that_tell_nothing_do_not_dilute_those_that_do() -> None:
    joined = joined_observations([observed(1.5, 1.0), observed(None, 0.1), observed(0.5, 1.0)])
    assert joined.other_cpus == pytest.approx(1.0)
    silent = joined_observations([observed(None, 0.1), observed(None, 0.1)])
    assert silent.other_cpus is None and host_of(silent)["other_cpus"] is None


STAT = """\
cpu  110 20 30 4000 50 6 7 80 9 10
cpu0 100 10 20 2000 25 3 4 70 5 6
cpu1 10 10 10 2000 25 3 3 10 4 4
""".splitlines()


@pytest.mark.parametrize(
    ("cpus", "ticks"), [({0}, 200), ({1}, 40), ({0, 1}, 240)], ids=["one", "the other", "both"]
)
def test_what_runs_on_other_cpus_than_ours_is_no_load(cpus: set[int], ticks: int) -> None:
    assert busy_ticks(STAT, cpus) == ticks


@pytest.mark.parametrize("lines", [STAT[:1], STAT[:2]], ids=["none is told of", "not all are"])
def test_where_cpus_are_not_told_apart_all_counts(lines: list[str]) -> None:
    assert busy_ticks(lines, {0, 1}) == 240
