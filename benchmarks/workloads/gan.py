"""A small adversarial pair on images of 16 x 16 pixels: two models, two optimizers, two updates a step.

Knobs that matter: num_threads and channels_last, for nearly all time goes into convolutions. Trap: of two
updates one closes the step, and what changes optimizers must change both.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

NOISE = 32


def generator() -> nn.Module:
    """Noise of (batch, NOISE, 1, 1) to images."""
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 128, 4), nn.BatchNorm2d(128), nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 4, 2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, 1, 4, 2, padding=1), nn.Tanh(),
    )  # fmt: skip


def discriminator() -> nn.Module:
    """Images to one score each."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 4, 2, padding=1), nn.LeakyReLU(0.2),
        nn.Conv2d(64, 128, 4, 2, padding=1), nn.LeakyReLU(0.2),
        nn.Conv2d(128, 1, 4), nn.Flatten(0),
    )  # fmt: skip


def blobs(count: int) -> TensorDataset:
    """Bright spots at random places."""
    place = 16 * torch.rand(2, count, 1)
    rows, columns = ((torch.arange(16) - each) ** 2 for each in place)
    return TensorDataset(2 * torch.exp(-(rows[:, None, :, None] + columns[:, None, None, :]) / 8) - 1)


def score(found: Tensor, real: bool) -> Tensor:
    """How far the scores are from calling all images real, or none."""
    return nn.functional.binary_cross_entropy_with_logits(found, torch.full_like(found, float(real)))


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    torch.manual_seed(0)
    forger, judge = generator(), discriminator()
    loader = DataLoader(blobs(2048), batch_size=options.batch_size, shuffle=True, drop_last=True)
    judging = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
    forging = torch.optim.Adam(forger.parameters(), lr=2e-4, betas=(0.5, 0.999))

    step = 0
    while step < options.steps:
        for (images,) in loader:
            forged = forger(torch.randn(len(images), NOISE, 1, 1))

            judged = score(judge(images), True) + score(judge(forged.detach()), False)
            judging.zero_grad()
            judged.backward()
            judging.step()

            fooled = score(judge(forged), True)
            forging.zero_grad()
            fooled.backward()
            forging.step()

            if step % 100 == 0:
                print(f"step {step} loss {judged.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
