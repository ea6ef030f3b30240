import ast

import pytest
from builders import a_gpu_profile, a_profile, a_rich_profile, an_optimizer

from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.knobs.communication_hook import CommunicationHook


def test_hooks_that_change_what_is_learnt_are_not_tried_unless_named() -> None:
    knob = CommunicationHook()
    assert knob.choices(a_profile()) == ["none", "fp16"]
    assert knob.choices(a_gpu_profile()) == ["none", "fp16", "bf16"]
    assert set(knob.values()) - {"none", "fp16", "bf16"} == {"powersgd", "topk", "int8"}
    assert knob.opt_in


def test_bf16_needs_nccl() -> None:
    with pytest.raises(Refused, match="needs CUDA with NCCL"):
        CommunicationHook().check("bf16", a_rich_profile())
    CommunicationHook().check("bf16", a_gpu_profile())


def test_sparse_gradients_are_not_compressed() -> None:
    profile = a_profile(optimizers=(an_optimizer("SGD", sparse_gradients=True),))
    CommunicationHook().check("none", profile)
    with pytest.raises(Refused, match="sparse"):
        CommunicationHook().choices(profile)


def test_each_hook_says_what_it_does_to_the_numbers() -> None:
    meaning = CommunicationHook().meaning
    assert meaning({}) is meaning({"communication_hook": "none"}) is Semantics.ROUNDING
    assert meaning({"communication_hook": "bf16"}) is Semantics.PRECISION
    assert meaning({"communication_hook": "int8"}) is Semantics.TRAINING


@pytest.mark.parametrize(
    ("other", "reason"), [({"amp": "fp16"}, "overflow"), ({"channels_last": "on"}, "not channels_last")]
)
def test_powersgd_needs_finite_matrices(other: dict[str, str], reason: str) -> None:
    knob = CommunicationHook()
    with pytest.raises(Refused, match=reason):
        knob.prepare({"communication_hook": "powersgd", **other}, {})
    knob.prepare({"communication_hook": "topk", **other}, {})
    knob.prepare({"communication_hook": "powersgd", "amp": "bf16", "channels_last": "off"}, {})


@pytest.mark.parametrize("hook", CommunicationHook().values())
def test_what_a_user_writes_is_python(hook: str) -> None:
    ast.parse(CommunicationHook().change(hook).snippet)
