from typing import Any

from builders import a_loader, a_profile, a_share, a_window

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.replayed import Replays, Share
from advisor.rules.input_bound import InputBound


def test_a_loader_that_keeps_up_is_not_reported() -> None:
    assert (
        InputBound().check(a_profile(phases_ms={"input_wait": 0.4}, loader=a_loader())).state is State.PASSED
    )


def test_the_measured_replay_is_the_ceiling_where_there_is_one() -> None:
    profile = a_profile(
        phases_ms={"input_wait": 4.0}, loader=a_loader(), replays=Replays(loader_free=a_share(0.31))
    )
    finding = InputBound().check(profile)
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.31, "replay")
    assert finding.severity is Severity.HIGH


def test_without_a_replay_the_phase_is_the_ceiling() -> None:
    finding = InputBound().check(a_profile(phases_ms={"input_wait": 2.0}, loader=a_loader()))
    assert finding.ceiling is not None and finding.ceiling.source == "timeline"
    assert finding.severity is Severity.MEDIUM


def test_a_wait_that_hides_other_work_is_worth_what_the_replay_says() -> None:
    profile = a_profile(
        phases_ms={"input_wait": 4.0}, loader=a_loader(), replays=Replays(loader_free=a_share(0.0))
    )
    assert InputBound().check(profile).state is State.PASSED


def test_a_program_without_a_loader_is_not_judged() -> None:
    assert InputBound().check(a_profile(phases_ms={"other": 9.0})).state is State.NOT_APPLICABLE


def test_more_workers_are_advised_only_where_a_cpu_is_free_for_them() -> None:
    waits = {"input_wait": 4.0}
    busy = a_loader(num_workers=4, cpu_share=1.0)
    waiting = a_loader(num_workers=4, cpu_share=0.1)
    run = RunFacts(num_threads=1)
    computing = InputBound().check(a_profile(phases_ms=waits, loader=busy, run=run))
    reading = InputBound().check(a_profile(phases_ms=waits, loader=waiting, run=run))
    unknown = InputBound().check(a_profile(phases_ms=waits, loader=a_loader(num_workers=4), run=run))
    assert "no free CPU" in str(computing.advice)
    assert "more than 4 workers" in str(reading.advice) and "more than 4 workers" in str(unknown.advice)


def a_traced(loader: str, wait_ms: float = 4.0) -> Profile:
    return a_profile(phases_ms={"input_wait": wait_ms}, target_kind="trace", window=a_window(loader=loader))


def test_a_trace_is_judged_by_the_ranges_of_its_loader() -> None:
    single = InputBound().check(a_traced("_SingleProcessDataLoaderIter"))
    many = InputBound().check(a_traced("_MultiProcessingDataLoaderIter"))
    assert single.state is many.state is State.OPPORTUNITY
    assert single.title == many.title == "40 % of each step waits for data"
    assert "num_workers=2" in single.advice and "more workers" in many.advice
    assert (single.evidence["num_workers"], many.evidence["num_workers"]) == (0, None)


def test_a_trace_without_such_a_range_is_not_judged() -> None:
    assert InputBound().check(a_traced("", 0.0)).state is State.NOT_APPLICABLE


def test_workers_that_deliver_in_bursts_make_a_step_wait_whatever_a_short_replay_says() -> None:
    facts: dict[str, Any] = {
        "phases_ms": {"input_wait": 3.3},
        "replays": Replays(loader_free=Share(0.0, 0.0, 0.5)),
    }
    bursts = InputBound().check(a_profile(loader=a_loader(num_workers=2), **facts))
    assert (bursts.state, bursts.severity) == (State.OPPORTUNITY, Severity.HIGH)
    ahead = InputBound().check(a_profile(loader=a_loader(num_workers=2), device="cuda:0", **facts))
    assert ahead.state is State.PASSED and "while other work goes on" in ahead.title


def test_no_more_workers_are_advised_than_read_and_draw_as_the_program_does() -> None:
    handle = Inherited("handle", "dataset.archive", "zipfile.ZipFile", drawn=None)
    generator = Inherited("generator", "dataset.rng", "numpy.Generator", drawn=True)
    phases = {"input_wait": 5.0, "forward": 5.0}
    one = InputBound().check(a_profile(phases_ms=phases, loader=a_loader(inherited=(handle,))))
    assert "num_workers=1" in one.advice and "num_workers=2" not in one.advice
    none = InputBound().check(a_profile(phases_ms=phases, loader=a_loader(inherited=(generator,))))
    assert "num_workers=" not in none.advice and "dataset.rng" in none.advice


def test_a_wait_that_a_disturbed_replay_cannot_tell_is_certain_where_the_program_makes_its_items() -> None:
    replays = Replays(loader_free=Share(0.6, -0.4, 0.99))
    finding = InputBound().check(
        a_profile(phases_ms={"input_wait": 99.0, "forward": 1.0}, replays=replays, loader=a_loader())
    )
    assert finding.fired and finding.ceiling is not None and finding.ceiling.low > 0.7
    sure = Replays(loader_free=Share(0.01, 0.0, 0.02))
    other = a_profile(phases_ms={"input_wait": 9.0, "forward": 1.0}, replays=sure, loader=a_loader())
    assert not InputBound().check(other).fired
