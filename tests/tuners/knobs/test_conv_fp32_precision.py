from collections.abc import Iterator
from typing import Any

import pytest
import torch
from builders import A_GPU, a_gpu_profile, a_machine, a_rich_profile, a_root, a_run

from advisor.profiles.events import Run
from advisor.profiles.facts.machine import Gpu
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.conv_fp32_precision import ConvFp32Precision

IEEE = RunFacts(conv_fp32_precision="ieee")
OLD = Gpu("Tesla V100", "GPU-1", 2**34, (7, 0))


@pytest.fixture
def settings() -> Iterator[Any]:
    """cuDNN's settings, at torch's default before and after."""
    cudnn: Any = torch.backends.cudnn
    cudnn.allow_tf32 = True
    yield cudnn
    cudnn.allow_tf32 = True


def a_process() -> Run:
    run = a_run(conv_fp32_precision=ConvFp32Precision())
    run.process()
    return run


def test_a_program_that_asked_for_exact_convolutions_is_offered_tf32() -> None:
    assert ConvFp32Precision().choices(a_gpu_profile(run=IEEE)) == ["ieee", "tf32"]


def test_where_tf32_is_on_nothing_is_left_to_gain_but_ieee_may_be_named() -> None:
    profile = a_gpu_profile(run=RunFacts(conv_fp32_precision="tf32"))
    assert ConvFp32Precision().present(profile) == "tf32"
    with pytest.raises(Refused, match="TF32 already"):
        ConvFp32Precision().choices(profile)
    ConvFp32Precision().check("ieee", profile)


def test_torchs_default_is_present_where_the_setting_was_not_read() -> None:
    assert ConvFp32Precision().present(a_gpu_profile()) == "tf32"


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_rich_profile(run=IEEE), "on the CPU"),
        (a_gpu_profile(a_machine(cuda=True, gpus=(OLD,)), run=IEEE), r"capability 7\.0"),
        (a_gpu_profile(a_machine(cuda=True, gpus=(OLD, A_GPU)), device="cuda:0", run=IEEE), "capability"),
        (a_gpu_profile(roots=(a_root(),), run=IEEE), "no convolutions"),
        (
            a_gpu_profile(roots=(a_root(dense_convolutions=1, dtypes=("bfloat16",)),), run=IEEE),
            "bfloat16, not float32",
        ),
    ],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        ConvFp32Precision().choices(profile)


def test_a_program_that_uses_the_older_setting_can_go_on_reading_it(settings: Any) -> None:
    settings.allow_tf32 = False
    run = a_process()
    run.configure({"conv_fp32_precision": "tf32"})
    assert (settings.allow_tf32, settings.conv.fp32_precision) == (True, "tf32")
    assert (run.unanswered(), run.refused) == ([], {})
    run.configure({})
    assert settings.allow_tf32 is False


def test_a_program_that_uses_the_newer_setting_is_answered_by_it(settings: Any) -> None:
    settings.conv.fp32_precision = "ieee"
    run, seen = a_process(), []
    for value in ("tf32", "ieee", "tf32", "ieee"):
        run.configure({"conv_fp32_precision": value})
        seen.append((settings.conv.fp32_precision, torch._C._get_fp32_precision_getter("cuda", "rnn")))
    assert seen == [("tf32", "tf32"), ("ieee", "tf32")] * 2


def test_a_program_that_sets_its_own_is_overruled_at_its_first_update(settings: Any) -> None:
    run = a_process()
    run.configure({"conv_fp32_precision": "tf32"})
    settings.conv.fp32_precision = "ieee"
    run.optimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]))
    assert settings.conv.fp32_precision == "tf32"
