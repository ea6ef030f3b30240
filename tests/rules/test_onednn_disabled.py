import pytest
from builders import a_gpu_profile, a_machine, a_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.recorded import Window
from advisor.rules.onednn_disabled import OnednnDisabled

OFF = RunFacts(mkldnn_enabled=False)


def computing(eligible_ms: float, name: str = "aten::_slow_conv2d_forward") -> Window:
    return a_window(an_op(name, eligible_ms), an_op("aten::relu", 10 - eligible_ms))


@pytest.mark.parametrize("name", ["aten::_slow_conv2d_forward", "aten::convolution_backward", "aten::addmm"])
def test_convolutions_and_matmuls_without_onednn_are_waste(name: str) -> None:
    finding = OnednnDisabled().check(a_profile(run=OFF, window=computing(6.0, name)))
    assert (finding.state, finding.severity, finding.kind) == (
        State.DIAGNOSTIC,
        Severity.MEDIUM,
        Kind.WASTE,
    )
    assert finding.title == "60 % of compute could use oneDNN, which is off"
    assert "torch.backends.mkldnn" in finding.advice


def test_a_little_of_it_passes_with_its_number() -> None:
    finding = OnednnDisabled().check(a_profile(run=OFF, window=computing(1.9)))
    assert (finding.state, finding.title) == (
        State.PASSED,
        "19 % of compute could use oneDNN, which is off",
    )


def test_a_fifth_of_compute_is_enough() -> None:
    assert OnednnDisabled().check(a_profile(run=OFF, window=computing(2.1))).fired


def test_other_operators_are_not_counted() -> None:
    window = computing(6.0, "aten::_convert_indices_from_coo_to_csr")
    assert OnednnDisabled().check(a_profile(run=OFF, window=window)).state is State.PASSED


def test_onednn_switched_on_passes() -> None:
    assert OnednnDisabled().check(a_profile(run=RunFacts(mkldnn_enabled=True))).state is State.PASSED


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_gpu_profile(run=OFF),
        a_profile(run=RunFacts()),
        a_profile(a_machine(mkldnn=False), run=OFF, window=computing(6.0)),
        a_profile(run=OFF),
        a_profile(run=OFF, window=a_window()),
    ],
    ids=["nothing", "gpu", "flag", "built without", "no window", "empty window"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert OnednnDisabled().check(profile).state is State.NOT_APPLICABLE
