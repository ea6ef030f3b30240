"""A second process of the program scores the network again and again while it is trained."""

import sys

import torch
import torch.multiprocessing as mp
from torch import nn

REPAIRED = "--repaired" in sys.argv


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))


def score(weights: dict[str, torch.Tensor], stop) -> None:
    model = network()
    kept = torch.randn(2048, 256)
    while not stop.is_set():
        model.load_state_dict(weights)
        with torch.no_grad():
            model(kept).argmax(1).bincount(minlength=10)
        if REPAIRED:
            stop.wait(20)


def main() -> None:
    torch.manual_seed(0)
    model = network()
    shared = {name: value.clone().share_memory_() for name, value in model.state_dict().items()}
    context = mp.get_context("spawn")
    stop = context.Event()
    context.Process(target=score, args=(shared, stop), daemon=True, name="scorer").start()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(40_000):
        inputs = torch.randn(128, 256)
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            for name, value in model.state_dict().items():
                shared[name].copy_(value)
    stop.set()


if __name__ == "__main__":
    main()
