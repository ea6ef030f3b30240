from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_profile, a_rich_profile, a_window, an_op

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import OpCost
from advisor.rules.gathered_weights import GatheredWeights

LINE = Location("experts.py", 31, "forward")
WEIGHT = (8, 64, 128)


def an_index(weight: tuple[int, ...] = WEIGHT, **facts: Any) -> OpCost:
    """As `w[i]` is recorded, of 4 ms in a step of 10 ms; sizes of `i` are not."""
    return an_op("aten::index", **{"self_ms": 4.0, "shapes": (weight, ()), "location": LINE, **facts})


def a_product(left: tuple[int, ...], right: tuple[int, ...], ms: float = 1.0, **facts: Any) -> OpCost:
    return an_op("aten::bmm", ms, shapes=(left, right), **facts)


BY_ROW = a_product((512, 1, 64), (512, 64, 128))


def check(*ops: OpCost) -> Finding:
    return GatheredWeights().check(a_rich_profile(window=a_window(*ops)))


def test_a_matrix_copied_for_each_token_is_waste_at_its_line() -> None:
    finding = check(an_index(), BY_ROW)
    assert (finding.state, finding.kind) == (State.OPPORTUNITY, Kind.WASTE)
    assert finding.title == (
        "50 % of each step copies weights and multiplies each copy with one row: 512 of 8 (64 x 128)"
    )
    assert finding.severity is Severity.MEDIUM and finding.location == LINE
    assert "Sort rows by expert at experts.py:31" in finding.advice
    assert finding.ceiling is not None  # each matrix is read once in any case
    assert finding.ceiling.share == pytest.approx(0.4 * (1 - 8 / 512))
    assert finding.evidence == {
        "copies_ms": 4.0, "products_ms": 1.0, "weights": [{"shape": [8, 64, 128], "copies": 512}],
    }  # fmt: skip


def test_what_the_products_take_beyond_large_ones_counts_where_their_rate_is_known() -> None:
    product = replace(BY_ROW, flops=2.0 * 512 * 64 * 128)  # 0.084 ms of the 1 ms at 1e11/s
    rates = Rates(matmul=(("float32", 1e11),))
    profile = a_rich_profile(window=a_window(an_index(), product), rates=rates)
    ceiling = GatheredWeights().check(profile).ceiling
    assert ceiling is not None
    assert ceiling.share == pytest.approx((4 * (1 - 8 / 512) + 1 - 2e-8 * 512 * 64 * 128) / 10)


def test_gradients_of_the_copies_count_with_them() -> None:
    scatter = an_op("aten::_index_put_impl_", 3.0, phase="backward", shapes=(WEIGHT, (), (512, 64, 128)))
    other = replace(scatter, shapes=((8, 3, 3), (), (512, 3, 3)))
    outer = a_product((512, 64, 1), (512, 1, 128), 2.0, phase="backward")
    evidence = check(an_index(), BY_ROW, scatter, other, outer).evidence
    assert (evidence["copies_ms"], evidence["products_ms"]) == (7.0, 3.0)


def test_calls_with_few_tokens_take_their_part_of_the_copies() -> None:
    one_by_one = a_product((2, 1, 64), (2, 64, 128), calls=64.0)
    finding = check(an_index(), BY_ROW, one_by_one)
    assert finding.ceiling is not None and finding.evidence["products_ms"] == 1.0
    assert finding.ceiling.share == pytest.approx(0.4 * (512 - 8) / (512 + 64 * 2))


@pytest.mark.parametrize(
    "product",
    [
        a_product((512, 128, 64), (512, 64, 1)),
        a_product((256, 1, 128), (256, 128, 2 * 64)),
        an_op("aten::baddbmm", 1.0, shapes=((512, 1, 128), (512, 1, 64), (512, 64, 128))),
    ],
    ids=["the other order", "two experts a token, as einsum puts them", "with a bias"],
)
def test_products_are_known_in_every_form(product: OpCost) -> None:
    select = an_op("aten::index_select", 4.0, shapes=(WEIGHT, (), (512,)), dtype="bfloat16")
    found = check(select, product)
    assert found.fired and found.evidence["weights"][0]["copies"] == 512


@pytest.mark.parametrize(
    "ops",
    [
        (an_index(), a_product((8, 1, 64), (8, 64, 128))),
        (an_index(),),
        (an_index(), a_product((512, 32, 64), (512, 64, 128))),
        (an_index(), a_product((2048, 1, 16), (2048, 16, 128))),
        (an_index(), an_op("aten::mm", 1.0, shapes=((512, 64), (64, 128)))),
        (an_index((50_000, 64)), BY_ROW),
        (an_index(dtype="int64"), BY_ROW),
        (an_index(phase="loader"), BY_ROW),
        (BY_ROW,),
    ],
    ids=[
        "no more tokens than experts", "no product", "many rows for a copy", "heads of attention",
        "one matrix for all", "an embedding", "no weights", "items of a dataset", "no index",
    ],
)  # fmt: skip
def test_what_looks_alike_is_not_accused(ops: tuple[OpCost, ...]) -> None:
    finding = check(*ops)
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


@pytest.mark.parametrize(("tokens", "fires"), [(512, False), (2048, True)])
def test_on_a_gpu_some_hundred_copies_can_be_the_faster_form(tokens: int, fires: bool) -> None:
    window = a_window(an_index(), a_product((tokens, 1, 64), (tokens, 64, 128)))
    assert GatheredWeights().check(a_gpu_profile(window=window)).fired is fires


def test_copies_that_take_nothing_of_the_step_pass() -> None:
    finding = check(an_index(self_ms=0.05), replace(BY_ROW, self_ms=0.05))
    assert finding.state is State.PASSED and finding.title.startswith("1.0 % of each step")


def test_it_abstains_with_the_reason_where_its_facts_are_missing() -> None:
    rule = GatheredWeights()
    blind = rule.check(a_rich_profile(window=a_window(BY_ROW, with_shapes=False)))
    assert (blind.state, blind.title) == (
        State.NOT_APPLICABLE, "sizes of operators: need a window with shapes",
    )  # fmt: skip
    assert rule.check(a_profile()).state is State.NOT_APPLICABLE
