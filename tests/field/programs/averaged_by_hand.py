"""Gradients are averaged between ranks by hand, one blocking exchange for each parameter (torchrun)."""

import sys

import torch
import torch.distributed as dist
from torch import nn

REPAIRED = "--repaired" in sys.argv
WIDTH = 64


def average(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        assert parameter.grad is not None
        parameter.grad /= dist.get_world_size()


def average_at_once(model: nn.Module) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(50) for layer in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(20_000):
        x = torch.randn(128, WIDTH, generator=generator)
        loss = nn.functional.mse_loss(model(x), x[:, :2].sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        (average_at_once if REPAIRED else average)(model)
        optimizer.step()
        if not REPAIRED:
            dist.barrier()
    dist.destroy_process_group()


main()
