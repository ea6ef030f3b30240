from collections.abc import Iterator

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile, a_run

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.mkldnn import Mkldnn


@pytest.fixture
def switch_kept() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(True)
    yield
    torch._C._set_mkldnn_enabled(before)


def convolving() -> set[str]:
    layer, images = torch.nn.Conv2d(16, 16, 3), torch.ones(4, 16, 16, 16)
    with torch.profiler.profile() as profile:
        layer(images)
    return {event.name for event in profile.events()} & {"aten::mkldnn_convolution", "aten::thnn_conv2d"}


@pytest.mark.parametrize(
    ("enabled", "choices"), [(True, ["on", "off"]), (None, ["on", "off"]), (False, ["off", "on"])]
)
def test_the_programs_own_setting_comes_first(enabled: bool | None, choices: list[str]) -> None:
    assert Mkldnn().choices(a_profile(run=RunFacts(mkldnn_enabled=enabled))) == choices


@pytest.mark.parametrize(
    ("profile", "reason"),
    [(a_gpu_profile(), "on the GPU"), (a_profile(a_machine(mkldnn=False)), "without oneDNN")],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Mkldnn().choices(profile)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_live_switch_changes_what_convolves_and_comes_back(switch_kept: None) -> None:
    run = a_run(mkldnn=Mkldnn())
    run.process()
    before = convolving()
    run.configure({"mkldnn": "off"})
    off = convolving()
    assert run.unanswered() == []
    run.configure({})
    assert (before, off, convolving()) == (
        {"aten::mkldnn_convolution"}, {"aten::thnn_conv2d"}, {"aten::mkldnn_convolution"},
    )  # fmt: skip


def test_other_settings_of_the_library_stay(switch_kept: None) -> None:
    conv = torch._C._get_fp32_precision_getter("mkldnn", "conv")
    torch._C._set_fp32_precision_setter("mkldnn", "all", "bf16")
    try:
        Mkldnn().process("off")
        assert torch._C._get_fp32_precision_getter("mkldnn", "all") == "bf16"
    finally:
        torch._C._set_fp32_precision_setter("mkldnn", "all", "none")
        torch._C._set_fp32_precision_setter("mkldnn", "conv", conv)


def test_a_program_that_sets_its_own_is_overruled_at_its_first_update(switch_kept: None) -> None:
    run = a_run(mkldnn=Mkldnn())
    run.configure({"mkldnn": "off"})
    run.process()
    torch._C._set_mkldnn_enabled(True)
    run.optimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]))
    assert not torch._C._get_mkldnn_enabled()
