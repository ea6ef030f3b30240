from dataclasses import replace

import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_profile, a_root, a_run

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.knobs.fsdp_precision import FsdpPrecision

OLD = a_machine(cuda=True, gpus=(replace(A_GPU, capability=(7, 5)),))


@pytest.mark.parametrize("profile", [a_profile(), a_gpu_profile()])
def test_machines_with_bf16_units_may_try_it(profile: Profile) -> None:
    knob = FsdpPrecision()
    assert knob.choices(profile) == ["off", "bf16"]
    assert knob.present(profile) == "off"
    assert knob.semantics is Semantics.PRECISION


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(a_machine(bf16_speedup=0.3)), "no bf16 units"),
        (a_gpu_profile(OLD), "capability 8.0"),
        (a_profile(run=RunFacts(own_autocast=True)), "autocast itself"),
        (a_profile(roots=(a_root(dtypes=("float64",)),)), "float64"),
        (a_profile(roots=(a_root(has_batch_norm=True),)), "batch norm"),
    ],
)
def test_where_it_cannot_act_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        FsdpPrecision().choices(profile)
    FsdpPrecision().check("off", profile)


@pytest.mark.parametrize(("amp", "refused"), [("off", False), ("bf16", True), ("fp16", True)])
def test_it_excludes_autocast(amp: str, refused: bool) -> None:
    run = a_run({"amp": "off"}, fsdp_precision=FsdpPrecision())
    run.configure({"fsdp_precision": "bf16", "amp": amp})
    assert ("fsdp_precision" in run.refused) is refused


@pytest.mark.parametrize("value", ["off", "bf16"])
def test_what_the_user_writes_is_code(value: str) -> None:
    compile(FsdpPrecision().change(value).snippet, "snippet", "exec")
