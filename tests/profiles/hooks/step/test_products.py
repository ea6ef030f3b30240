"""Products and distances that another order computes with less are found where a step computes them."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from advisor.profiles.facts.observed import Reordered
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.lineage import Lineage

POINTS, PLACES = torch.randn(64, 32), torch.randn(48, 32)
PAIRS = 64 * 48 * 32
FIRST, LAST, BATCH = torch.randn(512, 8), torch.randn(8, 512), torch.randn(16, 512)
QUERIES = torch.randn(4, 256, 16)


def found(step: Callable[[], object]) -> list[Reordered]:
    """What the second of two steps could compute in another order."""
    lineage = Lineage(Clock(lambda step: None))
    lineage.start()
    step()
    lineage.next_step()
    step()
    lineage.stop()
    return [line.reordered for line in lineage.facts() if line.reordered is not None]


def apart() -> Tensor:
    return POINTS[:, None] - PLACES[None]


def multiplied_by_itself() -> Tensor:
    differences = POINTS[:, None] - PLACES
    return (differences * differences).sum(2)


def of_repeated() -> Tensor:
    repeated = POINTS.unsqueeze(1).expand(64, 48, 32)
    return (repeated - PLACES.expand(64, 48, 32)).pow(2).mean(-1)


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("square", lambda: (apart() ** 2).sum(-1)),
        ("square", multiplied_by_itself),
        ("square", of_repeated),
        ("absolute", lambda: apart().abs().sum(dim=2)),
        ("norm", lambda: torch.norm(apart(), dim=2)),
        ("norm", lambda: apart().norm(2, -1)),
        ("norm", lambda: torch.linalg.norm(apart(), dim=-1)),
        ("norm", lambda: nn.functional.pairwise_distance(POINTS[:, None], PLACES[None])),
        ("product", lambda: (POINTS.unsqueeze(1) * PLACES).sum(-1)),
        ("cosine", lambda: nn.functional.cosine_similarity(POINTS[:, None], PLACES[None], dim=-1)),
    ],
)
def test_pairs_that_are_made_to_be_added_up_are_found(kind: str, step: Callable[[], Tensor]) -> None:
    (pairs,) = found(step)
    assert (pairs.kind, pairs.elements, pairs.calls) == (kind, PAIRS, 1)
    assert 0 < pairs.share <= 1


@pytest.mark.parametrize(
    "step",
    [
        lambda: apart().sum(-1),  # differences cancel: a sum of each
        lambda: (POINTS[:, None] * PLACES).relu().sum(-1),  # a step between that no product has
        lambda: (apart() ** 2).sum(0),  # over the points, which only one of both has
        lambda: apart() ** 3,
        lambda: torch.cdist(POINTS, PLACES),
        lambda: ((POINTS[:48] - PLACES) ** 2).sum(-1),  # each with its own: no pairs
        lambda: ((POINTS[:, None] - PLACES[:4]) ** 2).sum(-1),  # of few: hardly larger
    ],
)
def test_what_a_product_does_not_give_is_not(step: Callable[[], Tensor]) -> None:
    assert found(step) == []


@pytest.mark.parametrize(
    "step",
    [
        lambda: BATCH @ (FIRST @ LAST),
        lambda: nn.functional.linear(BATCH, FIRST @ LAST),
        lambda: BATCH @ torch.einsum("nr,rm->nm", FIRST, LAST).T,
    ],
)
def test_factors_multiplied_before_the_batch_are_found(step: Callable[[], Tensor]) -> None:
    (order,) = found(step)
    assert (order.kind, order.elements) == ("chain", 512 * 512)
    assert order.kept < 0.03


def test_scores_without_anything_between_them_and_the_values_are_found() -> None:
    (order,) = found(lambda: (QUERIES @ QUERIES.transpose(1, 2)) @ QUERIES)
    assert order.kept == pytest.approx(16 / 256)
    assert found(lambda: torch.softmax(QUERIES @ QUERIES.transpose(1, 2), -1) @ QUERIES) == []


def test_a_product_that_is_used_twice_and_the_cheaper_order_are_not() -> None:
    def twice() -> tuple[Tensor, Tensor]:
        whole = FIRST @ LAST
        return BATCH @ whole, BATCH @ whole.T

    assert found(twice) == []
    assert found(lambda: (BATCH @ FIRST) @ LAST) == []


def test_an_einsum_of_several_goes_from_left_to_right_unless_its_order_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, core = torch.randn(16, 48), torch.randn(48, 48, 48)

    def step() -> Tensor:
        return torch.einsum("bi,bj,bk,ijk->b", rows, rows, rows, core)

    package = SimpleNamespace(contract_path=lambda *_, optimize: [[(0, 3), (0, 1), (0, 1)]])
    finds = {"enabled": True, "is_available": lambda: True, "strategy": "auto"}
    monkeypatch.setattr(
        torch.backends, "opt_einsum", SimpleNamespace(**finds, get_opt_einsum=lambda: package)
    )
    assert found(step) == []
    monkeypatch.setattr(torch.backends, "opt_einsum", SimpleNamespace(enabled=False))
    (order,) = found(step)
    assert (order.kind, order.elements) == ("einsum", 16 * 48**3)
    assert order.kept < 0.1
