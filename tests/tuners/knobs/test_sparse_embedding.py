from typing import Any

import pytest
import torch
from builders import a_profile, a_root, a_run, a_window, an_op, an_optimizer
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import EmbeddingFacts, Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.sparse_embedding import SparseEmbedding


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.users = nn.Embedding(50, 4)
        self.bag = nn.EmbeddingBag(30, 4)
        self.layer = nn.Linear(8, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        features = torch.cat([self.users(rows), self.bag(rows.unsqueeze(1))], dim=1)
        result: torch.Tensor = self.layer(features)
        return result


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 4)
        self.head = nn.Linear(4, 50, bias=False)
        self.head.weight = self.words.weight


def switched_on(**others: Any) -> Run:
    run = a_run(sparse_embedding=SparseEmbedding())
    run.configure({"sparse_embedding": "on", **others})
    return run


def train(run: Run, kind: Any, **options: Any) -> Recommender:
    model = Recommender()
    optimizer = kind(model.parameters(), lr=0.1, **options)
    run.model(model)
    for step in range(4):
        model(torch.tensor([1, 2, 2, 7 + step])).square().mean().backward()
        run.optimizer(optimizer)
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.mark.parametrize(
    ("kind", "options"),
    [(torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adagrad, {})],
    ids=["SGD", "momentum", "Adagrad"],
)
def test_sparse_gradients_train_the_same_model(kind: Any, options: dict[str, Any]) -> None:
    run = switched_on()
    ours, own = train(run, kind, **options), train(a_run(), kind, **options)
    assert (run.refused, run.unanswered()) == ({}, [])
    for one, other in zip(ours.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_tables_hold_only_rows_that_were_read() -> None:
    model = Recommender()
    switched_on().model(model)
    model(torch.tensor([1, 2])).sum().backward()
    assert model.users.weight.grad is not None and model.bag.weight.grad is not None
    assert model.users.weight.grad.coalesce().indices().tolist() == [[1, 2]]
    assert model.bag.weight.grad.is_sparse


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        (torch.optim.AdamW, {}, "AdamW takes no sparse gradients"),
        (torch.optim.SGD, {"weight_decay": 0.1}, "weight decay"),
        (torch.optim.SGD, {"fused": True}, "fused"),
    ],
)
def test_an_optimizer_that_cannot_update_them_gets_dense_ones_back(
    kind: Any, options: dict[str, Any], reason: str
) -> None:
    run = switched_on()
    ours, own = train(run, kind, **options), train(a_run(), kind, **options)
    assert reason in run.refused["sparse_embedding"]
    assert not ours.users.sparse
    torch.testing.assert_close(ours.users.weight, own.users.weight)


def test_a_table_that_is_an_output_layer_too_stays_dense() -> None:
    model, run = Tied(), switched_on()
    run.model(model)
    run.optimizer(torch.optim.SGD(model.parameters()))
    assert not model.words.sparse
    assert "no embedding table of its own" in run.refused["sparse_embedding"]


def test_a_fused_update_beside_it_is_refused() -> None:
    assert "fused" in switched_on(optimizer_implementation="fused").refused["sparse_embedding"]


def a_recommender(optimizer: str = "SGD", **facts: Any) -> Profile:
    tables = (EmbeddingFacts("users", rows=50000, columns=16), EmbeddingFacts("small", rows=5, columns=16))
    defaults = {"roots": (a_root(embeddings=tables),), "optimizers": (an_optimizer(optimizer),)}
    return a_profile(**{**defaults, **facts})


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_a_workload_whose_optimizer_takes_them_may_try_it(name: str) -> None:
    assert SparseEmbedding().choices(a_recommender(name)) == ["off", "on"]


WRITE = r"write nn.Embedding\(50000, 16, sparse=True\) for `users` and update it with torch.optim.SparseAdam"


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_recommender(target_kind="script"), WRITE),
        (a_recommender("AdamW"), f"AdamW takes no sparse gradients: {WRITE}"),
        (a_recommender(optimizers=(an_optimizer("SGD", fused=True),)), f"fused .*: {WRITE}"),
        (a_recommender(optimizers=()), "without torch.optim"),
        (a_recommender(roots=(a_root(),)), "no embedding table"),
        (a_recommender(roots=(a_root(embeddings=(EmbeddingFacts("a", 9, 9, sparse=True),)),)), "already"),
        (a_recommender(roots=(a_root(embeddings=(EmbeddingFacts("a", 9, 9, tied=True),)),)), "shared"),
        (a_recommender(window=a_window(an_op("aten::_foreach_norm", phase="other"))), "clipped"),
    ],
)
def test_elsewhere_the_reason_says_what_to_write(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        SparseEmbedding().choices(profile)
