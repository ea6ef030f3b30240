"""Parameters averaged in two processes."""

from pathlib import Path

import torch
from ranks import run_ranks
from torch import nn
from torch.utils.data import TensorDataset

from advisor.tuners.mechanisms.data_parallel.averaging import average
from advisor.tuners.place import HERE
from advisor.workloads.workload import Workload


def parameters() -> Workload:
    """The ranks have parameters of 2 and 4; checked here, in each process."""
    own = 2.0 * (HERE.place.rank + 1)
    trained = [nn.Parameter(torch.full(shape, own)) for shape in ((3,), (2, 2))]
    double = nn.Parameter(torch.full((2,), own, dtype=torch.float64))
    frozen = nn.Parameter(torch.full((3,), own), requires_grad=False)
    average([trained[0], double, trained[1], frozen], 2)
    for parameter in (*trained, double):
        assert (parameter == 3).all()
    assert (frozen == own).all()
    return Workload(
        model=lambda: nn.Linear(1, 1),
        dataset=lambda: TensorDataset(torch.zeros(1, 1), torch.zeros(1, 1)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1),
    )


def test_trained_parameters_become_their_mean_and_frozen_ones_stay(tmp_path: Path) -> None:
    run_ranks("single", parameters, tmp_path, steps=0)
