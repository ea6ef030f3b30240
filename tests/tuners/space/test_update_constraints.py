import pytest
from builders import a_profile

from advisor.tuners.knob import Config
from advisor.tuners.space import update_constraints


def test_sparse_gradients_exclude_fused_updates() -> None:
    config: Config = {"sparse_embedding": "on", "optimizer_implementation": "fused"}
    assert "sparse" in str(update_constraints.sparse_gradients_are_not_fused(config, a_profile()))
    assert (
        update_constraints.sparse_gradients_are_not_fused(
            {**config, "optimizer_implementation": "default"}, a_profile()
        )
        is None
    )


@pytest.mark.parametrize(
    ("other", "excluded"),
    [
        ({"amp": "fp16"}, True),
        ({"amp": "bf16"}, False),
        ({"lr_scaling": "sqrt"}, True),
        ({"accumulation": 1}, False),
    ],
)
def test_updates_in_backward_exclude_what_acts_between(other: Config, excluded: bool) -> None:
    found = update_constraints.updates_in_backward_stand_alone(
        {"optimizer_in_backward": "on", **other}, a_profile()
    )
    assert (found is not None) is excluded


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"compile_region": "optimizer", "optimizer_implementation": "fused"}, "one kernel already"),
        ({"compile_region": "optimizer", "optimizer_in_backward": "on"}, "no update after backward"),
        ({"compile_region": "optimizer", "optimizer_implementation": "foreach"}, None),
        ({"compile_region": "blocks", "optimizer_implementation": "fused"}, None),
        ({"compile_region": "model+loss", "optimizer_in_backward": "on"}, None),
    ],
)
def test_only_an_update_of_many_operations_after_backward_is_compiled(
    config: Config, said: str | None
) -> None:
    reason = update_constraints.compiled_updates_are_plain({"execution": "compile", **config}, a_profile())
    assert reason is None if said is None else said in str(reason)


@pytest.mark.parametrize(
    ("amp", "stored", "excluded"),
    [
        ("bf16", "bf16", True),
        ("fp16", "bf16", True),
        ("off", "bf16", False),
        ("bf16", "off", False),
    ],
)
def test_parameters_in_16_bits_leave_autocast_nothing_to_cast(amp: str, stored: str, excluded: bool) -> None:
    config: Config = {"amp": amp, "low_precision_parameters": stored}
    reason = update_constraints.low_precision_is_chosen_once(config, a_profile())
    said = f"low_precision_parameters=bf16 computes in 16 bits already, which excludes amp={amp}"
    assert reason == (said if excluded else None)
