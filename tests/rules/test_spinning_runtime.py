from dataclasses import replace

from builders import a_machine, a_served_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.served import SessionFacts
from advisor.rules.spinning_runtime import SpinningRuntime


def check(
    *, threads: int = 4, spinning: bool = True, torch_ms: float = 4.0, torch_threads: int = 2
) -> Finding:
    profile = a_served_profile(
        a_machine(cpus_allowed=4),
        phases_ms={"forward": torch_ms + 3, "other": 7 - torch_ms},
        session_ms=3.0,
        sessions=(SessionFacts(threads, spinning),),
    )
    assert profile.run is not None
    return SpinningRuntime().check(replace(profile, run=replace(profile.run, num_threads=torch_threads)))


def test_threads_that_spin_while_torch_computes_are_a_risk() -> None:
    finding = check()
    assert (finding.state, finding.kind) == (State.DIAGNOSTIC, Kind.RISK)
    assert finding.title == "40 % of each request computes in torch beside 4 threads that spin"
    assert '"session.intra_op.allow_spinning", "0"' in finding.advice


def test_threads_that_sleep_or_are_alone_pass() -> None:
    for alone in (check(spinning=False), check(threads=1), check(torch_ms=0.1), check(torch_threads=1)):
        assert alone.state is State.PASSED


def test_without_a_session_nothing_is_judged() -> None:
    assert SpinningRuntime().check(a_served_profile()).state is State.NOT_APPLICABLE
