from builders import a_profile, an_optimizer

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.rules.optimizer_recreated import OptimizerRecreated


def check(renewed: int, updates: int | None, state_bytes: int = 4096) -> Finding:
    optimizer = an_optimizer(
        renewed=renewed, updates=updates, state_bytes=state_bytes, location=Location("train.py", 7)
    )
    return OptimizerRecreated().check(a_profile(optimizers=(optimizer,)))


def test_an_optimizer_for_each_update_loses_its_momenta() -> None:
    finding = check(99, 100)
    assert finding.title == "100 optimizers were made for 100 updates: each begins with no momenta"
    assert finding.severity is Severity.HIGH and finding.location == Location("train.py", 7)
    assert "param_groups" in finding.advice and "train.py:7" in finding.advice


def test_what_keeps_no_state_loses_none() -> None:
    assert check(99, 100, state_bytes=0).severity is Severity.LOW


def test_one_that_stays_or_serves_a_phase_passes() -> None:
    assert check(0, 100).state is State.PASSED
    assert check(2, 3).state is State.PASSED
    assert check(5, 600).state is State.PASSED
    assert check(5, None).state is State.NOT_APPLICABLE
    assert OptimizerRecreated().check(a_profile(optimizers=())).state is State.NOT_APPLICABLE
