"""Two networks against each other, each with an optimizer of its own.

The generator learns to draw what the data set holds: one bright spot somewhere on a dark square.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

SIDE = 16
NOISE = 32


def spots(count: int) -> Tensor:
    """Images of shape (count, SIDE * SIDE), values from -1 to 1."""
    generator = torch.Generator().manual_seed(0)
    centres = 4 + (SIDE - 8) * torch.rand(count, 2, 1, 1, generator=generator)
    lines = torch.arange(SIDE).float()
    distance = (lines.view(1, -1, 1) - centres[:, 0]) ** 2 + (lines.view(1, 1, -1) - centres[:, 1]) ** 2
    return (2 * torch.exp(-distance / 6) - 1).flatten(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--images", type=int, default=4096, help="size of the data set")
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(0)
    generator = nn.Sequential(
        nn.Linear(NOISE, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, SIDE * SIDE),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Linear(SIDE * SIDE, 512),
        nn.LeakyReLU(0.2),
        nn.Linear(512, 256),
        nn.LeakyReLU(0.2),
        nn.Linear(256, 1),
    )
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    loader = DataLoader(
        TensorDataset(spots(options.images)), options.batch_size, shuffle=True, drop_last=True
    )

    for epoch in range(options.epochs):
        totals = [0.0, 0.0]
        for (real,) in loader:
            true, false = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            drawn = generator(torch.randn(len(real), NOISE))

            generator_optimizer.zero_grad()
            generator_loss = criterion(discriminator(drawn), true)
            generator_loss.backward()
            generator_optimizer.step()

            discriminator_optimizer.zero_grad()
            on_real = criterion(discriminator(real), true)
            on_drawn = criterion(discriminator(drawn.detach()), false)
            discriminator_loss = (on_real + on_drawn) / 2
            discriminator_loss.backward()
            discriminator_optimizer.step()

            totals[0] += generator_loss.item()
            totals[1] += discriminator_loss.item()
        drawing, judging = (total / len(loader) for total in totals)
        print(f"epoch {epoch} generator loss {drawing:.4f} discriminator loss {judging:.4f}", flush=True)


if __name__ == "__main__":
    main()
