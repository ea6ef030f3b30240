from typing import Any

import pytest
from builders import a_gpu_profile, a_machine, a_profile, a_share, a_window, an_optimizer

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.profile import OptimizerFacts, Profile, StepPhases
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.replayed import Replays
from advisor.rules.single_tensor_optimizer import SingleTensorOptimizer


def on_cpu(ms: float = 2.0, optimizer: OptimizerFacts | None = None, **facts: Any) -> Profile:
    return a_profile(
        phases_ms={"optimizer": ms, "backward": 4.0}, optimizers=(optimizer or an_optimizer(),), **facts
    )


def on_gpu(optimizer: OptimizerFacts, single: bool | None = None) -> Profile:
    return a_gpu_profile(
        phases=StepPhases(step_ms=10.0, optimizer_ms=2.0, steps=20),
        optimizers=(optimizer,),
        window=a_window(single_tensor_updates=single),
    )


def test_torchs_own_choice_on_a_cpu_is_headroom() -> None:
    finding = SingleTensorOptimizer().check(on_cpu())
    assert (finding.kind, finding.severity) == (Kind.HEADROOM, Severity.MEDIUM)
    assert finding.title == "20 % of each step updates parameters one by one"
    assert "torch.optim.AdamW(..., fused=True)" in finding.advice


def test_a_loop_that_was_asked_for_is_waste() -> None:
    finding = SingleTensorOptimizer().check(on_cpu(optimizer=an_optimizer(foreach=False)))
    assert finding.kind is Kind.WASTE


def test_a_twentieth_of_the_step_is_enough() -> None:
    assert SingleTensorOptimizer().check(on_cpu(0.55)).severity is Severity.LOW


def test_a_small_share_of_the_step_passes() -> None:
    assert SingleTensorOptimizer().check(on_cpu(0.49)).state is State.PASSED


def test_the_ceiling_is_that_of_the_symptom_it_explains() -> None:
    finding = SingleTensorOptimizer().check(
        on_cpu(
            optimizer=an_optimizer(parameter_bytes=1000, state_bytes=2000),
            replays=Replays(optimizer_off=a_share(0.2)),
            rates=Rates(memory_sequential=7000 / 1e-3),
        )
    )
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.1)
    assert finding.ceiling.source == "replay"
    assert SingleTensorOptimizer.explains == ("optimizer_bound",)


@pytest.mark.parametrize("facts", [{"fused": True}, {"foreach": True}])
def test_another_form_passes(facts: dict[str, Any]) -> None:
    assert SingleTensorOptimizer().check(on_cpu(optimizer=an_optimizer(**facts))).state is State.PASSED


def test_foreach_is_not_advised_on_a_cpu() -> None:
    finding = SingleTensorOptimizer().check(on_cpu(optimizer=an_optimizer("RMSprop", has_fused=False)))
    assert finding.state is State.NOT_APPLICABLE
    assert finding.title == "faster form of RMSprop: there is none for a CPU"


def test_foreach_is_advised_on_a_gpu_where_nothing_is_fused() -> None:
    optimizer = an_optimizer("RMSprop", has_fused=False, foreach=False)
    assert "foreach=True" in SingleTensorOptimizer().check(on_gpu(optimizer)).advice


@pytest.mark.parametrize(
    ("single", "state"), [(None, State.PASSED), (False, State.PASSED), (True, State.OPPORTUNITY)]
)
def test_on_a_gpu_the_window_says_what_ran_by_default(single: bool | None, state: State) -> None:
    assert SingleTensorOptimizer().check(on_gpu(an_optimizer(), single)).state is state


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(phases_ms={"other": 9.0})])
def test_without_steps_or_an_optimizer_nothing_is_said(profile: Profile) -> None:
    assert SingleTensorOptimizer().check(profile).state is State.NOT_APPLICABLE
