from dataclasses import replace
from typing import Any

import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_rich_profile, a_root, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import EmbeddingFacts, Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import OpCost
from advisor.rules.misaligned_matmul import MisalignedMatmul

HEAD = Location("model.py", 88)
RATES = Rates(matmul=(("bfloat16", 100e12),))


def a_product(rows: int, inner: int, columns: int, ms: float, **facts: Any) -> OpCost:
    defaults = {"dtype": "bfloat16", "shapes": ((rows, inner), (inner, columns))}
    return an_op("aten::mm", ms, **{**defaults, **facts})


def test_a_vocabulary_of_50257_is_padded_to_50304() -> None:
    window = a_window(a_product(4096, 768, 50257, 6.0, location=HEAD), a_product(4096, 768, 768, 4.0))
    table = EmbeddingFacts("wte", rows=50257, columns=768)
    finding = MisalignedMatmul().check(
        a_gpu_profile(window=window, rates=RATES, roots=(a_root(embeddings=(table,)),))
    )
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.HEADROOM
    assert finding.severity is Severity.MEDIUM
    assert "Pad the size 50257 to 50304" in finding.advice and "saved weights" in finding.advice
    assert finding.location == HEAD
    assert finding.title.startswith("60 % of compute")


def test_the_rate_of_aligned_products_of_like_work_bounds_the_gain() -> None:
    # 2 * 1000 * 1024 * 1024 FLOP in 1 ms aligned; the padded product does the same work
    window = a_window(a_product(1000, 1024, 1020, 3.0), a_product(1000, 1024, 1024, 1.0))
    finding = MisalignedMatmul().check(a_gpu_profile(window=window))
    assert finding.ceiling is not None
    assert (round(finding.ceiling.share, 3), finding.ceiling.source) == (0.2, "model")


def test_by_a_data_sheet_the_least_time_of_the_padded_product_bounds_the_gain() -> None:
    # 2 * 1000 * 1024 * 1024 FLOP at 100 TFLOP/s are 0.02 ms; by its bytes it takes 0.1 ms of the 3 ms
    product = a_product(1000, 1024, 1020, 3.0, flops=2e3 * 1024 * 1020, bytes=1e8)
    sheet = replace(RATES, memory_sequential=1e12, source="data sheet of a device")
    finding = MisalignedMatmul().check(a_gpu_profile(window=a_window(product), rates=sheet))
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx((3.0 - 0.1 * 1024 / 1020) / 10, rel=1e-3)


def test_gradients_of_a_misaligned_layer_count_with_it() -> None:
    forward = a_product(1000, 1024, 1020, 1.5)
    backward = a_product(1020, 1000, 1024, 1.5, phase="backward")
    window = a_window(forward, backward, a_product(1000, 1024, 1024, 1.0))
    finding = MisalignedMatmul().check(a_gpu_profile(window=window))
    assert finding.evidence["unaligned_ms"] == 3.0


def test_a_batch_of_odd_size_is_no_misaligned_layer() -> None:
    forward = a_product(1001, 1024, 1024, 3.0)
    backward = a_product(1024, 1001, 1024, 3.0, phase="backward")
    finding = MisalignedMatmul().check(a_gpu_profile(window=a_window(forward, backward), rates=RATES))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_a_multiple_of_8_is_enough_where_it_is_no_vocabulary() -> None:
    window = a_window(a_product(4096, 768, 50264, 6.0))
    assert MisalignedMatmul().check(a_gpu_profile(window=window, rates=RATES)).state is State.PASSED
    vocabulary = a_root(embeddings=(EmbeddingFacts("wte", rows=50264, columns=768),))
    told = MisalignedMatmul().check(a_gpu_profile(window=window, rates=RATES, roots=(vocabulary,)))
    assert told.state is State.OPPORTUNITY


def test_a_product_that_runs_at_full_rate_anyway_passes() -> None:
    window = a_window(a_product(1000, 1024, 1020, 1.0), a_product(1000, 1024, 1024, 1.0))
    assert MisalignedMatmul().check(a_gpu_profile(window=window)).state is State.PASSED


def test_float32_products_pass() -> None:
    window = a_window(a_product(1000, 1024, 1020, 3.0, dtype="float32"))
    assert MisalignedMatmul().check(a_gpu_profile(window=window, rates=RATES)).state is State.PASSED


ODD = a_window(a_product(1000, 1024, 1020, 3.0))
OLD = a_machine(gpus=(replace(A_GPU, capability=(6, 1)),))


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_rich_profile(window=ODD, rates=RATES),
        a_gpu_profile(OLD, window=ODD, rates=RATES),
        a_gpu_profile(rates=RATES),
        a_gpu_profile(window=a_window(a_product(1, 1, 1, 3.0, shapes=())), rates=RATES),
        a_gpu_profile(window=ODD),
    ],
    ids=["nothing", "CPU", "no tensor cores", "no window", "no shapes", "no rate to compare with"],
)
def test_without_its_facts_it_abstains(profile: Profile) -> None:
    assert MisalignedMatmul().check(profile).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(("columns", "state"), [(3584, State.OPPORTUNITY), (5120, State.NOT_APPLICABLE)])
def test_only_products_of_like_work_are_compared_with(columns: int, state: State) -> None:
    aligned = a_product(1000, 1024, columns, columns / 1024)
    window = a_window(a_product(1000, 1024, 1020, 3.0), aligned)
    assert MisalignedMatmul().check(a_gpu_profile(window=window)).state is state


def test_much_smaller_products_are_not_compared_with_either() -> None:
    window = a_window(a_product(1000, 1024, 1020, 3.0), a_product(1000, 1024, 200, 0.2))
    assert MisalignedMatmul().check(a_gpu_profile(window=window)).state is State.NOT_APPLICABLE
