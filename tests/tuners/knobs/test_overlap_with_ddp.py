import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_profile, a_run, a_window, an_op

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.knobs.overlap_with_ddp import OverlapWithDdp

TWO_GPUS = a_machine(cuda=True, gpus=(A_GPU, A_GPU))
CLIPPING = a_window(an_op("aten::_foreach_norm", phase="other"))


def test_two_gpus_may_try_it_when_it_is_named() -> None:
    assert OverlapWithDdp().choices(a_gpu_profile(TWO_GPUS)) == ["off", "on"]
    assert OverlapWithDdp.named_only
    assert OverlapWithDdp.semantics is Semantics.TRAINING


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "two GPUs"),
        (a_gpu_profile(), "two GPUs"),
        (a_gpu_profile(TWO_GPUS, device="cpu"), "two GPUs"),
        (a_gpu_profile(TWO_GPUS, window=CLIPPING), "clipping"),
    ],
)
def test_where_it_cannot_act_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        OverlapWithDdp().choices(profile)
    OverlapWithDdp().check("off", profile)


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({}, False),
        ({"amp": "bf16"}, False),
        ({"amp": "fp16"}, True),
        ({"lr_scaling": "sqrt"}, True),
        ({"optimizer_implementation": "fused"}, True),
    ],
)
def test_changes_that_need_the_optimizers_settings_exclude_it(config: dict[str, str], refused: bool) -> None:
    present = {"amp": "off", "lr_scaling": "none", "optimizer_implementation": "for-loop"}
    run = a_run({**present}, overlap_with_ddp=OverlapWithDdp())
    run.configure({"overlap_with_ddp": "on", **config})
    assert ("overlap_with_ddp" in run.refused) is refused


def test_what_the_user_writes_is_code() -> None:
    compile(OverlapWithDdp().change("on").snippet, "snippet", "exec")
