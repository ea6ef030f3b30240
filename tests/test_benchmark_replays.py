"""Replays of advisor's decision with step series made up here: noise is no gain, and a gain is found."""

import random
import time
from pathlib import Path

import pytest

from advisor.tuners.trial.messages import Slot
from benchmarks.placebo_replay import (
    Covering,
    cover,
    coverage,
    decide,
    share_interval,
    summary,
    upper_bound,
)
from benchmarks.power import find_replayed
from benchmarks.power import summary as power_summary
from benchmarks.record_series import Recorded, Series, read, write
from benchmarks.replayed import Clock, Program, ReplayLauncher

STEP_S = 0.02
SLOT = 8  # steps


def a_series(*, noise: float = 0.03, bias: float = 0.0, processes: int = 12, loaded: bool = False) -> Series:
    """Processes that differ by ``bias``, with 40 slots of steps that differ by ``noise``, both relative."""
    source = random.Random(0)

    def process() -> Recorded:
        own = source.gauss(0.0, bias)
        slots = tuple(
            Slot(tuple(STEP_S * (1 + own) * (1 + source.gauss(0.0, noise)) for _ in range(SLOT)), cpu_s=0.16)
            for _ in range(40)
        )
        return Recorded(startup_s=2.0, warm=2, slots=slots)

    return Series("made_up", loaded, 1, tuple(process() for _ in range(processes)))


@pytest.fixture(scope="module")
def identical() -> Program:
    return Program(a_series())


@pytest.fixture(scope="module")
def biased() -> Program:
    """Fresh processes differ by 4 %, however long they run."""
    return Program(a_series(bias=0.04))


@pytest.mark.parametrize("runs", [12, pytest.param(50, marks=pytest.mark.long)])
def test_identical_arms_are_never_recommended(runs: int) -> None:
    noisy = Program(a_series(noise=0.2))
    decided = [decide(noisy, seed) for seed in range(runs)]
    assert not any(each.recommended for each in decided)
    assert sum(each.nominated for each in decided) > runs // 2  # the search has been tempted
    assert any(each.instances >= 6 for each in decided)


@pytest.mark.parametrize("how", ["baton", "windows"])
def test_the_bias_of_a_process_is_no_gain(biased: Program, how: str) -> None:
    decided = [decide(biased, seed, how) for seed in range(20)]
    assert not any(each.recommended for each in decided)
    assert any(each.instances >= 6 for each in decided)


@pytest.mark.parametrize("how", ["live", "baton", "windows"])
def test_an_arm_that_is_faster_by_30_percent_is_always_confirmed(identical: Program, how: str) -> None:
    for seed in range(8):
        decided = decide(
            identical, seed, how, factor=lambda config: 1 / 1.3 if config.get("placebo") == "on" else 1.0
        )
        assert decided.recommended
        assert decided.config["placebo"] == "on"
        assert decided.ratio is not None and decided.ratio[1] <= 1.3 <= decided.ratio[2]


def test_a_replay_takes_simulated_time(identical: Program) -> None:
    began = time.monotonic()
    simulated_s = decide(identical, 0).seconds
    assert simulated_s > 20 * (time.monotonic() - began)


def test_a_planted_slowdown_is_detected_and_a_lack_of_one_cannot_be_recommended(identical: Program) -> None:
    rows = power_summary(find_replayed(identical, share, seed) for share in (0.0, 0.3) for seed in range(10))
    assert [(row["share"], row["runs"]) for row in rows] == [(0.0, 10), (0.3, 10)]
    assert [row["recommendable"] for row in rows] == [0.0, 1.0]
    assert rows[0]["detected"] <= 0.1 and rows[1]["detected"] == 1.0
    assert rows[1]["median_ratio"] == pytest.approx(1.3, rel=0.02)
    assert rows[1]["median_seconds"] >= 2 * 2.0  # two starts at least


def test_intervals_over_processes_cover_what_those_of_one_process_cannot(biased: Program) -> None:
    coverings = [each for seed in range(20) for each in cover(biased, seed)]
    shares = {(row["interval"], row["how"], row["level"]): row["covered"] for row in coverage(coverings)}
    assert shares["between, 6 instances", "baton", 0.99] >= 0.85
    assert shares["between, 12 instances", "windows", 0.99] >= 0.85
    assert shares["within, t-interval", "live", 0.99] >= 0.85


def test_coverage_is_counted_by_interval_and_level() -> None:
    rows = coverage(
        [Covering("within", "live", False, 0.95, True)] * 3 + [Covering("within", "live", False, 0.95, False)]
    )
    assert [(row["instances"], row["covered"]) for row in rows] == [(4, 0.75)]
    assert rows[0]["low"] < 0.75 < rows[0]["high"]


def test_none_of_299_bounds_the_rate_at_one_percent() -> None:
    assert upper_bound(0, 299) == pytest.approx(0.01, abs=5e-5)
    assert upper_bound(0, 298) > 0.01 > upper_bound(4, 1000)
    assert upper_bound(5, 1000) > 0.01
    assert upper_bound(7, 7) == 1.0


def test_the_interval_of_a_share_is_clopper_and_pearson_s() -> None:
    assert share_interval(0, 10) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert share_interval(95, 100) == pytest.approx((0.8872, 0.9836), abs=1e-4)


def test_false_recommendations_are_counted_and_listed(identical: Program) -> None:
    fast = [decide(identical, 0, factor=lambda config: 0.7 if config.get("placebo") == "on" else 1.0)]
    found = summary([*fast, *(decide(identical, seed) for seed in range(3))], [])
    everything = found["decisions"][0]
    assert (everything["replays"], everything["false_recommendations"]) == (4, 1)
    assert everything["upper_bound_95"] == pytest.approx(upper_bound(1, 4))
    assert [each["seed"] for each in found["false_recommendations"]] == [0]


def test_a_series_is_read_as_it_was_written(tmp_path: Path) -> None:
    series = a_series(processes=2, loaded=True)
    path = write(series, tmp_path / "series", {"taken": "today"})
    assert path.name == "made_up-loaded.json.gz"
    again = read(path)
    assert (again.workload, again.loaded, again.threads) == ("made_up", True, 1)
    for before, after in zip(series.processes, again.processes, strict=True):
        assert (before.startup_s, before.warm) == (after.startup_s, after.warm)
        for one, other in zip(before.slots, after.slots, strict=True):
            assert one.step_s == pytest.approx(other.step_s, abs=1e-9)
            assert one.cpu_s == pytest.approx(other.cpu_s, abs=1e-9)


def test_two_programs_that_take_turns_play_different_processes(identical: Program) -> None:
    launcher = ReplayLauncher(identical, Clock(), random.Random(0))
    sessions = [launcher.start(0, {}, {}) for _ in range(4)]
    assert len({session.slot(3).step_s for session in sessions}) == 4


def test_slots_follow_each_other_as_they_were_recorded(identical: Program) -> None:
    launcher = ReplayLauncher(identical, Clock(), random.Random(1))
    session = launcher.start(0, {}, {})
    played = [*session.slot(5, drop=0).step_s, *session.slot(5, drop=0).step_s]
    assert any(
        tuple(played) == process.wall_s[place : place + 10]
        for process in identical.processes
        for place in range(len(process.wall_s))
    )


def test_what_a_slot_counts_beside_time_follows_the_steps(identical: Program) -> None:
    slot = ReplayLauncher(identical, Clock(), random.Random(2)).start(0, {}, {}).slot(SLOT * 10, limit_s=9.0)
    assert slot.cpu_s == pytest.approx(sum(slot.step_s), rel=0.05)  # 0.16 s in 8 steps of 0.02 s


def test_too_few_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 processes"):
        Program(a_series(processes=3))
