"""Gradients averaged in two processes, of which one may lack some."""

from pathlib import Path

import torch
from ranks import run_ranks
from torch import nn
from torch.utils.data import TensorDataset

from advisor.tuners.mechanisms.data_parallel.missing_gradients import average_gradients
from advisor.tuners.place import HERE
from advisor.workloads.workload import Workload


def gradients() -> Workload:
    """The ranks have gradients of 2 and 4, both or one of them; checked here, in each process."""
    both, first_only, neither = (nn.Parameter(torch.zeros(3)) for _ in range(3))
    table = nn.Embedding(5, 2, sparse=True)
    own = 2.0 * (HERE.place.rank + 1)
    both.grad = torch.full((3,), own)
    if HERE.place.rank == 0:
        first_only.grad = torch.full((3,), own)
        (table(torch.tensor([1, 1])).sum() * own).backward()
    parameters = [both, first_only, neither, table.weight]
    assert average_gradients(parameters) == 3
    assert both.grad.tolist() == [3.0] * 3
    assert first_only.grad is not None and first_only.grad.tolist() == [1.0] * 3
    assert neither.grad is None
    assert table.weight.grad is not None and table.weight.grad.is_sparse
    assert table.weight.grad.to_dense()[1].tolist() == [2.0, 2.0]
    assert table.weight.grad.to_dense().sum() == 4
    return Workload(
        model=lambda: nn.Linear(1, 1),
        dataset=lambda: TensorDataset(torch.zeros(1, 1), torch.zeros(1, 1)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1),
    )


def test_a_missing_gradient_counts_as_zeros_unless_all_miss_it(tmp_path: Path) -> None:
    run_ranks("single", gradients, tmp_path, steps=0)
