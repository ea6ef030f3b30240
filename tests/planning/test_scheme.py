"""A strategy's laws decide how its communication grows, and are told by name."""

import pytest

import advisor
from advisor.base.errors import UsageError
from advisor.planning.laws import LAWS
from advisor.planning.physics import Physics
from advisor.planning.places import Measured, Place, Point
from advisor.planning.plan import make_plan
from advisor.planning.priors import Priors
from advisor.planning.scheme import AS_MEASURED, OF_STRATEGY, Scheme, chosen
from advisor.planning.whole import Whole
from advisor.report.plan_lines import render_markdown

BY_HAND = [
    # strategy, ranks, nodes: bytes over those of two ranks, messages in trees, messages in chains
    ("ddp", 8, 1, 1.75, 0, 0),  # 2 x 7/8 over 2 x 1/2
    ("ddp", 64, 8, 2 * 63 / 64, 6, 126),  # three levels there and back; a ring of 64
    ("zero", 64, 8, 2 * 63 / 64, 0, 126),  # NCCL has no tree for it
    ("fsdp", 64, 8, 2 * 63 / 64, 0, 189),  # three rounds of 63
    ("hybrid", 64, 8, 2 * 7 / 8, 0, 14),  # eight rings over eight nodes, each with an eighth
    ("data_parallel", 4, 1, 3, 0, 0),  # the root's link carries all
    ("parameter_server", 8, 1, 1, 0, 0),  # as many servers as workers
    ("pipeline", 8, 4, 1, 0, 6),  # each stage hands on as much; three borders between nodes, there and back
]


@pytest.mark.parametrize(("strategy", "ranks", "nodes", "size", "levels", "chain"), BY_HAND)
def test_coefficients_are_those_worked_by_hand(
    strategy: str, ranks: int, nodes: int, size: float, levels: float, chain: float
) -> None:
    scheme, place = Scheme.of(strategy), Place(ranks, nodes)
    assert scheme.bytes(place) == pytest.approx(size)
    assert (scheme.levels(place), scheme.chain(place)) == (levels, chain)


@pytest.mark.parametrize("strategy", OF_STRATEGY)
def test_two_ranks_are_the_unit_and_one_costs_nothing(strategy: str) -> None:
    scheme = Scheme.of(strategy)
    assert scheme.bytes(Place(2, 1)) == scheme.bytes(Place(2, 2)) == 1
    assert scheme.bytes(Place(1, 1)) == 0
    assert {name for name, _ in scheme.told} <= LAWS.keys()


def test_workers_of_one_server_wait_for_its_link() -> None:
    one, two = (Scheme.of("parameter_server", servers) for servers in (1, 2))
    assert one.bytes(Place(4, 4)) == 2  # four in place of two
    assert two.bytes(Place(4, 4)) == 2  # and with two servers, of which two workers fill one each
    assert one.bytes(Place(8, 8)) == 4


def test_an_unknown_strategy_is_taken_for_an_all_reduce() -> None:
    scheme = Scheme.of("something else")
    assert scheme.names == ("ring", "double_binary_tree") and not scheme.known
    assert Scheme.of("ddp").known


def test_ranks_that_do_not_divide_count_as_full_nodes() -> None:
    assert Scheme().chain(Place(7, 3)) == 2 * (9 - 1)


def test_the_law_decides_how_what_sticks_out_grows() -> None:
    """The same two runs; a root's link carries more with each rank, a ring's hardly."""
    points = [Point(Place(1, 1), 100), Point(Place(2, 1), 150, exposed_ms=50)]
    exposed = {}
    for strategy in ("ddp", "data_parallel"):
        fitted = Physics(points, Priors.stored().physics, scheme=Scheme.of(strategy))
        exposed[strategy] = fitted.parts(Place(8, 1)).communication_ms
    assert exposed["data_parallel"] > 2 * exposed["ddp"]


def test_a_plan_names_its_laws_with_formula_and_source() -> None:
    points = [Point(Place(8, 1), 100), Point(Place(16, 2), 110)]
    plan = make_plan(points, [Place(64, 8)], strategy="fsdp")
    (law,) = plan.as_json()["laws"]
    told = LAWS["fsdp"]
    assert law == {"strategy": "fsdp", "name": "fsdp", "formula": told.formula, "source": told.source}
    assert LAWS["fsdp"].source in render_markdown(plan)
    assert not any("all-reduce (--strategy" in row.what for row in plan.basis)
    usual = make_plan(points, [Place(64, 8)])
    assert [law.name for law in usual.laws] == ["ring", "double_binary_tree"]
    assert any("all-reduce (--strategy" in row.what for row in usual.basis)
    laws = Whole.of([plan, usual]).as_json()["laws"]
    assert [(law["strategy"], law["name"]) for law in laws] == [
        ("fsdp", "fsdp"), ("as measured", "ring"), ("as measured", "double_binary_tree"),
    ]  # fmt: skip


def test_one_of_several_is_chosen_or_told_to_points() -> None:
    points = Measured([Point(Place(1, 1), 100)])
    several = {"ddp": points, "fsdp": points}
    assert chosen(several, None) == chosen(several, "all") == several
    assert chosen(several, "fsdp") == {"fsdp": points}
    assert chosen({AS_MEASURED: points}, "zero") == {"zero": points}
    with pytest.raises(UsageError, match="no strategy zero was measured"):
        chosen(several, "zero")
    with pytest.raises(UsageError, match="no laws are known of magic"):
        chosen({AS_MEASURED: points}, "magic")
    assert advisor.plan(points.points, ranks=[2], strategy="zero").predictions[0].strategy == "zero"


def test_the_bubble_grows_a_pipeline_by_its_law() -> None:
    """Two stages of four micro-batches take 5/4 of their work, four 7/4, eight 11/4."""
    points = [Point(Place(1, 1), 100), Point(Place(2, 1), 125, micro_batches=4)]
    plan = make_plan(points, [Place(2, 1), Place(4, 1), Place(8, 1)], strategy="pipeline")
    two, four, eight = plan.predictions
    assert two.parts_ms["bubble_ms"] == pytest.approx(25)
    for row, times in ((four, 7 / 4), (eight, 11 / 4)):
        assert row.step_ms.estimate == pytest.approx(100 * times, rel=0.05)
        assert row.parts_ms["bubble_ms"] == pytest.approx(row.step_ms.estimate * (1 - 1 / times))
        assert sum(row.parts_ms.values()) == pytest.approx(row.step_ms.estimate)
    told = render_markdown(plan)
    assert "bubble" in told and "4 micro-batches" in told and LAWS["gpipe"].source in told
    assert "bubble_ms" not in make_plan(points, [Place(4, 1)], strategy="ddp").predictions[0].parts_ms


def test_more_micro_batches_make_a_smaller_bubble() -> None:
    def at_eight(parts: int) -> float:
        points = [Point(Place(1, 1), 100, micro_batches=parts)]
        return make_plan(points, [Place(8, 1)], strategy="pipeline").predictions[0].step_ms.estimate

    assert at_eight(4) / at_eight(28) == pytest.approx((11 / 4) / (35 / 28))
