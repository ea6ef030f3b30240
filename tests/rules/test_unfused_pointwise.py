from typing import Any

from builders import a_gpu_profile, a_machine, a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import PointwiseChains
from advisor.rules.unfused_pointwise import UnfusedPointwise

LINE = Location("model.py", 20, "forward")
RATES = Rates(memory_sequential=10e9)  # 10 MB a millisecond


def a_run_with(
    ms: float, moved: float = 10e6, fused: float = 2.5e6, machine: Machine | None = None, **facts: Any
) -> Profile:
    """Computes 10 ms in a step of 10 ms, ``ms`` of it in chains."""
    chains = PointwiseChains(ms, 12.0, ("aten::mul", "aten::add", "aten::tanh"), moved, fused, LINE)
    window = a_window(an_op("aten::mm", 10.0 - ms), an_op("aten::mul", ms), pointwise=chains)
    return a_rich_profile(machine, **{"window": window, "rates": RATES, **facts})


def test_slow_chains_are_headroom_for_the_bytes_that_fusing_saves() -> None:
    finding = UnfusedPointwise().check(a_run_with(4.0))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.HEADROOM
    assert finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None
    assert (round(finding.ceiling.share, 3), finding.ceiling.source) == (0.3, "model")
    assert finding.evidence["share_of_memory_speed"] == 0.25
    assert finding.location == LINE
    assert "torch.compile(model)" in finding.advice and "random numbers" in finding.advice
    assert finding.knobs == ("execution", "compile_region")


def test_just_below_the_threshold_passes() -> None:
    finding = UnfusedPointwise().check(a_run_with(1.4, moved=2e6, fused=0.5e6))
    assert finding.state is State.PASSED and finding.title.startswith("14 %")
    assert UnfusedPointwise().check(a_run_with(1.6, moved=2e6, fused=0.5e6)).fired


def test_chains_whose_tensors_lie_in_a_cache_pass() -> None:
    finding = UnfusedPointwise().check(a_run_with(4.0, moved=40e6))
    assert finding.state is State.PASSED and "100 % of memory speed" in finding.title
    assert UnfusedPointwise().check(a_run_with(4.0, moved=39e6)).fired


def test_a_program_that_compiles_is_not_judged() -> None:
    finding = UnfusedPointwise().check(a_run_with(4.0, run=RunFacts(own_compile=True)))
    assert finding.state is State.NOT_APPLICABLE


def test_without_a_compiler_the_advice_names_it_and_nothing_is_tried() -> None:
    finding = UnfusedPointwise().check(a_run_with(4.0, machine=a_machine(has_compiler=False)))
    assert finding.advice.startswith("Install a C++ compiler") and finding.knobs == ()


def test_a_gpu_needs_no_compiler_of_the_host() -> None:
    window = a_run_with(4.0).window
    finding = UnfusedPointwise().check(a_gpu_profile(window=window, rates=RATES))
    assert finding.knobs == ("execution", "compile_region")


def test_no_chains_in_recorded_shapes_pass() -> None:
    finding = UnfusedPointwise().check(a_rich_profile(window=a_window(an_op())))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_without_its_facts_it_abstains() -> None:
    assert UnfusedPointwise().check(a_run_with(4.0, rates=None)).state is State.NOT_APPLICABLE
    unshaped = a_rich_profile(window=a_window(an_op(), with_shapes=False))
    assert UnfusedPointwise().check(unshaped).state is State.NOT_APPLICABLE
