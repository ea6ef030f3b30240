"""Labels of every batch are kept for a metric at the end of the epoch, as the loader gave them."""

import resource
import sys

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv


def main() -> None:
    torch.manual_seed(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    data = TensorDataset(torch.randn(64_000, 256), torch.randint(2, (64_000, 1)).float())
    loader = DataLoader(data, batch_size=32, shuffle=True)
    layers = [layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    model = nn.Sequential(nn.Linear(256, 1024), *layers, nn.Linear(1024, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(1000):
        scores: list[Tensor] = []
        labels: list[Tensor] = []
        for x, y in loader:
            out = model(x)
            loss = nn.functional.binary_cross_entropy_with_logits(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scores.append(out.detach())
            labels.append(y.clone() if REPAIRED else y)
        right = (torch.cat(scores) > 0) == (torch.cat(labels) > 0.5)
        print(f"{right.float().mean():.3f}", flush=True)


main()
