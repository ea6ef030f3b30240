"""Gradients are checked and clipped parameter by parameter; repaired, torch's own call does all of them."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
LIMIT = 1.0


def clip(model: nn.Module) -> None:
    """Scale the gradients down to a norm of ``LIMIT``, once they are known to be numbers."""
    if REPAIRED:
        nn.utils.clip_grad_norm_(model.parameters(), LIMIT, error_if_nonfinite=True)
        return
    total = 0.0
    for parameter in model.parameters():
        if torch.isnan(parameter.grad).any() or torch.isinf(parameter.grad).any():
            raise RuntimeError("a gradient is no number")
        total += parameter.grad.norm(2).item() ** 2
    if total > LIMIT**2:
        for parameter in model.parameters():
            parameter.grad.mul_(LIMIT / total**0.5)


def main() -> None:
    """Train a deep, narrow network on random samples."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(8192, 48), torch.randint(0, 5, (8192,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    blocks = [module for _ in range(30) for module in (nn.Linear(48, 48), nn.LayerNorm(48), nn.ReLU())]
    model = nn.Sequential(*blocks, nn.Linear(48, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for _ in range(40):
        for samples, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(samples), labels).backward()
            clip(model)
            optimizer.step()


main()
