"""A network of wide linear layers, as a workload file: much to communicate for little to compute.

Several ranks exchange 6.5 MB of gradients at every step, which on one machine rarely pays.
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import advisor

SAMPLES, INPUTS, WIDTH, CLASSES = 8192, 512, 1024, 10


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(INPUTS, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, CLASSES),
    )


def rows() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, INPUTS, generator=generator)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    return TensorDataset(centres[labels] + 2.0 * torch.randn(SAMPLES, INPUTS, generator=generator), labels)


workload = advisor.Workload(
    model=network,
    dataset=rows,
    loss=nn.functional.cross_entropy,
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    batch_size=128,
)
