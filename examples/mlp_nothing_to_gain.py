"""A wide network on data in memory: preparing a batch takes less than a hundredth of a step.

However many processes prepare the batches, a step cannot become noticeably shorter.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    torch.manual_seed(0)
    centres = torch.randn(10, 784)
    labels = torch.randint(10, (4096,))
    data = TensorDataset(centres[labels] + 2 * torch.randn(4096, 784), labels)
    loader = DataLoader(data, batch_size=options.batch_size, shuffle=True, drop_last=True)
    model = nn.Sequential(
        nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
        nn.Linear(2048, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    step = 0
    while step < options.steps:
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0 or step == options.steps - 1:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
