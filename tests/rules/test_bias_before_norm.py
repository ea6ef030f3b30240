from typing import Any

import pytest
from builders import a_machine, a_profile, a_root, a_window, an_op

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile, RootFacts
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import OpCost
from advisor.rules.bias_before_norm import BiasBeforeNorm

IMAGES = (32, 16, 8, 8)
ROWS = (64, 128)


def a_norm(shape: tuple[int, ...] = ROWS, **facts: Any) -> OpCost:
    return an_op("aten::native_batch_norm", 0.5, shapes=(shape, (shape[1],)), **facts)


def a_sum(ms: float, shape: tuple[int, ...] = ROWS) -> OpCost:
    return an_op("aten::sum", ms, phase="backward", shapes=(shape, ()))


def biased(*names: str) -> RootFacts:
    return a_root(biases_before_norm=names or ("0",), location=Location("net.py", 5))


def training(*ops: OpCost, **facts: Any) -> Profile:
    defaults = {"window": a_window(*ops), "roots": (biased(),)}
    return a_profile(phases_ms={"forward": 5.0, "backward": 4.0}, **{**defaults, **facts})


def test_the_bias_operators_seen_are_the_ceiling() -> None:
    added = an_op("aten::add_", 0.5, shapes=(ROWS, (1, 128)))
    finding = BiasBeforeNorm().check(training(a_norm(), a_sum(1.0), added))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.15)
    assert (finding.ceiling.source, finding.severity) == ("timeline", Severity.MEDIUM)
    assert finding.advice == "Build `0` with `bias=False`; the saved model then lacks these tensors."
    assert finding.location == Location("net.py", 5)


def test_less_than_two_percent_passes_with_its_number() -> None:
    finding = BiasBeforeNorm().check(training(a_norm(), a_sum(0.1)))
    assert (finding.state, finding.evidence["measured_ms"]) == (State.PASSED, 0.1)


def test_sums_of_other_tensors_are_not_counted() -> None:
    residual = an_op("aten::add_", 3.0, shapes=(ROWS, ROWS))
    loss = an_op("aten::sum", 3.0, shapes=(ROWS, ()))
    finding = BiasBeforeNorm().check(training(a_norm(), a_sum(0.1), a_sum(3.0, (64, 10)), residual, loss))
    assert finding.evidence["measured_ms"] == 0.1


def test_what_a_convolution_hides_is_modelled_from_bytes() -> None:
    moved = 4 * 32 * 16 * 8 * 8  # float32, once
    finding = BiasBeforeNorm().check(
        training(a_norm(IMAGES), rates=Rates(memory_sequential=moved / 2e-3), roots=(biased("0", "3"),))
    )
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.2)
    assert (finding.ceiling.source, finding.severity) == ("model", Severity.MEDIUM)
    assert "`0` and 1 more" in finding.advice


def test_only_the_norms_behind_a_bias_are_modelled() -> None:
    moved = 4 * 32 * 16 * 8 * 8
    finding = BiasBeforeNorm().check(
        training(a_norm(IMAGES, calls=4.0), rates=Rates(memory_sequential=moved / 2e-3))
    )
    assert finding.evidence["modelled_ms"] == pytest.approx(2.0)


def of_vectors(name: str, ms: float, phase: str, length: int = 128, calls: float = 3.0) -> OpCost:
    return an_op(name, ms, phase=phase, shapes=((length,), ()), calls=calls)


def test_biases_have_their_share_in_what_is_done_to_vectors_of_their_length() -> None:
    stored = of_vectors("torch::autograd::AccumulateGrad", 0.3, "backward")
    updates = [of_vectors("aten::mul_", 0.6, "optimizer"), of_vectors("aten::addcdiv_", 0.3, "optimizer")]
    other = of_vectors("aten::mul_", 5.0, "optimizer", length=64)
    finding = BiasBeforeNorm().check(training(a_norm(), a_sum(0.1), stored, *updates, other))
    assert finding.evidence["updated_ms"] == pytest.approx(0.4), "a third of 1.2 ms"
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.05)


def test_vectors_of_other_layers_make_that_share_smaller() -> None:
    stored = of_vectors("torch::autograd::AccumulateGrad", 0.6, "backward", calls=6.0)
    finding = BiasBeforeNorm().check(training(a_norm(), a_sum(0.1), stored))
    assert finding.evidence["updated_ms"] == pytest.approx(0.1)


def test_without_stored_gradients_three_vectors_stand_for_each_norm() -> None:
    update = of_vectors("aten::mul_", 0.6, "optimizer", calls=6.0)
    finding = BiasBeforeNorm().check(training(a_norm(calls=2.0), a_sum(0.1), update, roots=(biased("0"),)))
    assert finding.evidence["updated_ms"] == pytest.approx(0.1), "one of two norms has a bias before it"


def test_a_model_without_such_biases_passes() -> None:
    assert BiasBeforeNorm().check(a_profile(roots=(a_root(),))).state is State.PASSED


def test_norms_that_do_not_run_pass() -> None:
    assert BiasBeforeNorm().check(training(a_sum(3.0))).state is State.PASSED


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_profile(roots=(biased(),)),
        training(window=None),
        training(window=a_window(a_norm(), with_shapes=False)),
        training(a_norm(IMAGES)),
    ],
    ids=["nothing", "no steps", "no window", "no shapes", "no rates"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert BiasBeforeNorm().check(profile).state is State.NOT_APPLICABLE
