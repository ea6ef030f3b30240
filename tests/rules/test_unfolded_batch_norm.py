from dataclasses import replace

import pytest
from builders import a_profile, a_root, a_served_profile, a_window, an_op

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import Profile
from advisor.rules.unfolded_batch_norm import UnfoldedBatchNorm


def a_run(norm_ms: float, **root: bool) -> Profile:
    ops = an_op("aten::native_batch_norm", norm_ms, calls=19.0), an_op("aten::batch_norm", 0.0, calls=19.0)
    facts = {"has_batch_norm": True, "convolution_dimensions": (2,), **root}
    return replace(a_served_profile(), roots=(a_root(**facts),), window=a_window(*ops))


def check(norm_ms: float, **root: bool) -> Finding:
    return UnfoldedBatchNorm().check(a_run(norm_ms, **root))


def test_norms_beside_convolutions_are_waste_by_their_time() -> None:
    finding = check(3.0)
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.MEDIUM)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)
    assert finding.knobs == ("fold_conv_bn",) and finding.title.startswith("30 % of each request goes to 19")


def test_little_time_or_no_norm_passes() -> None:
    assert check(0.2).state is State.PASSED
    assert check(3.0, has_batch_norm=False).state is State.PASSED


def test_a_model_in_training_mode_has_no_constant_norms() -> None:
    profile = a_run(3.0)
    assert profile.run is not None
    training = replace(profile, run=replace(profile.run, requests_in_training_mode=True))
    assert UnfoldedBatchNorm().check(training).state is State.NOT_APPLICABLE


def test_a_training_and_requests_that_were_not_recorded_are_not_judged() -> None:
    assert UnfoldedBatchNorm().check(a_profile()).state is State.NOT_APPLICABLE
    assert UnfoldedBatchNorm().check(a_served_profile()).state is State.NOT_APPLICABLE
