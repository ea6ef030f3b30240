"""Batches of the reference loop, computed in parts."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from advisor.tuners.mechanisms.micro_batches import Splitting
from advisor.tuners.trial import loop
from advisor.workloads.workload import Workload

ROWS = torch.arange(20.0).reshape(10, 2)


class Numbers(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return ROWS[index] / 20, ROWS[index, :1] / 10


def test_parts_hold_all_samples_in_their_order() -> None:
    splitting = Splitting(parts=4)
    parts = splitting.split({"rows": ROWS, "ids": (torch.arange(10),)})
    assert torch.equal(torch.cat([part["rows"] for part, _ in parts]), ROWS)
    assert torch.equal(torch.cat([part["ids"][0] for part, _ in parts]), torch.arange(10))
    assert [share for _, share in parts] == [0.3, 0.3, 0.3, 0.1]
    assert splitting.refusal is None


def test_one_part_is_the_batch_itself() -> None:
    batch = object()
    assert Splitting().split(batch) == [(batch, 1.0)]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ((ROWS, ["a"] * 10), "more than tensors"),
        ((ROWS, torch.tensor(1.0)), "more than tensors"),
        ((ROWS, ROWS[:5]), "differ in their number"),
        ((), "differ in their number"),
    ],
)
def test_what_cannot_be_split_stays_whole_and_says_why(batch: Any, reason: str) -> None:
    splitting = Splitting(parts=2)
    assert len(splitting.split(batch)) == 1
    assert splitting.refusal is not None and reason in splitting.refusal
    splitting.split((ROWS, ROWS))
    assert splitting.refusal is None


def trained(
    monkeypatch: pytest.MonkeyPatch, parts: int, accumulation: int = 1
) -> tuple[list[int], nn.Linear]:
    """Three batches, the last of an epoch smaller: the sizes that the model saw, and the model."""
    monkeypatch.setattr(loop, "SPLITTING", Splitting(parts))
    torch.manual_seed(0)
    model, sizes = nn.Linear(2, 1), list[int]()
    model.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))

    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    workload = Workload(
        model=lambda: model, dataset=Numbers, loss=nn.functional.mse_loss, optimizer=optimizer,
        batch_size=4, shuffle=False, drop_last=False, accumulation=accumulation, device="cpu",
    )  # fmt: skip
    loop.train(workload, batches=3)
    return sizes, model


@pytest.mark.parametrize("accumulation", [1, 3])
def test_the_loop_learns_the_same_from_parts(monkeypatch: pytest.MonkeyPatch, accumulation: int) -> None:
    whole_sizes, whole = trained(monkeypatch, 1, accumulation)
    sizes, model = trained(monkeypatch, 4, accumulation)
    assert whole_sizes == [4, 4, 2]
    assert sizes == [1] * 10
    torch.testing.assert_close(model.weight, whole.weight, rtol=1e-5, atol=1e-6)
    assert not torch.equal(model.weight, nn.Linear(2, 1).weight)
