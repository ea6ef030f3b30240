"""A discriminator learns from what a generator makes, with the generator's graph still attached."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
generator = nn.Sequential(
    nn.ConvTranspose2d(32, 64, 4), nn.BatchNorm2d(64), nn.ReLU(),
    nn.ConvTranspose2d(64, 48, 4, 2, 1), nn.BatchNorm2d(48), nn.ReLU(),
    nn.ConvTranspose2d(48, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 1, 3, 1, 1), nn.Tanh(),
)  # fmt: skip
critic = nn.Sequential(
    nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2),
    nn.Flatten(), nn.Linear(512, 1),
)  # fmt: skip
makes = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.999))
judges = torch.optim.Adam(critic.parameters(), 2e-4, betas=(0.5, 0.999))
real = torch.rand(64, 1, 16, 16) * 2 - 1
criterion = nn.BCEWithLogitsLoss()
right, wrong = torch.ones(16, 1), torch.zeros(16, 1)
for _step in range(20_000):
    for _ in range(4):
        fake = generator(torch.randn(16, 32, 1, 1))
        judges.zero_grad()
        seen = fake.detach() if REPAIRED else fake
        rows = torch.randint(len(real), (16,))
        loss = criterion(critic(real[rows]), right) + criterion(critic(seen), wrong)
        loss.backward()
        judges.step()
    makes.zero_grad()
    criterion(critic(generator(torch.randn(16, 32, 1, 1))), right).backward()
    makes.step()
