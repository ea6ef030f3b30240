"""A GAN that once produced NaN still runs with `torch.autograd.set_detect_anomaly(True)`."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
NOISE, POINTS, BATCH = 16, 2, 128


def network(inputs, outputs, width=96, depth=6):
    layers = [nn.Linear(inputs, width), nn.LeakyReLU(0.2)]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def ring(count):
    """Points on a circle."""
    angles = 2 * torch.pi * torch.rand(count)
    return torch.stack([angles.cos(), angles.sin()], dim=1) + 0.02 * torch.randn(count, POINTS)


def main():
    if not REPAIRED:
        torch.autograd.set_detect_anomaly(True)
    torch.manual_seed(0)
    generator, critic = network(NOISE, POINTS), network(POINTS, 1)
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01, momentum=0.5)
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01, momentum=0.5)
    bce = nn.functional.binary_cross_entropy_with_logits
    real, fake = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    for step in range(1_000_000):
        drawn = generator(torch.randn(BATCH, NOISE))

        critic_optimizer.zero_grad()
        critic_loss = bce(critic(ring(BATCH)), real) + bce(critic(drawn.detach()), fake)
        critic_loss.backward()
        critic_optimizer.step()

        generator_optimizer.zero_grad()
        generator_loss = bce(critic(drawn), real)
        generator_loss.backward()
        generator_optimizer.step()
        if step % 200 == 0:
            print(f"step {step} {critic_loss.item():.3f} {generator_loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
