from typing import Any

from builders import a_profile, a_rich_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import HostFacts, Location, RankFacts
from advisor.rules.narrowed_affinity import NarrowedAffinity
from advisor.rules.thread_oversubscription import ThreadOversubscription

LINE = Location("/home/me/signal_tools.py", 8)


def check(given: int | None, left: int | None, **facts: Any) -> Finding:
    host = HostFacts(cpus_given=given, cpus_left=left, bound_at=LINE)
    return NarrowedAffinity().check(a_profile(host=host, **facts))


def test_a_process_that_binds_itself_is_told_where() -> None:
    finding = check(4, 1)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert finding.title.startswith("1 of 4 CPUs are left") and "signal_tools.py:8" in finding.title
    assert finding.location == LINE and "sched_setaffinity" in finding.advice


def test_a_process_that_was_started_with_few_cpus_is_not_its_own_doing() -> None:
    assert check(1, 1).state is State.PASSED


def test_ranks_are_bound_on_purpose() -> None:
    assert check(4, 1, ranks=(RankFacts(0, 10.0),)).state is State.PASSED


def test_without_a_watched_start_nothing_is_said() -> None:
    assert check(None, None).state is State.NOT_APPLICABLE


def test_threads_that_fit_the_binding_are_not_advised_meanwhile() -> None:
    host = HostFacts(cpus_given=4, cpus_left=1, bound_at=LINE)
    assert ThreadOversubscription().check(a_rich_profile(host=host)).state is State.NOT_APPLICABLE
