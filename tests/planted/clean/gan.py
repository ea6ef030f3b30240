"""A generator and a discriminator take turns, each with its own optimizer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self, noise=32, pixels=256):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(noise, 256),
            nn.ReLU(),
            nn.Linear(256, 512),
            nn.ReLU(),
            nn.Linear(512, pixels),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.layers(noise)


class Discriminator(nn.Module):
    def __init__(self, pixels=256):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(pixels, 512),
            nn.LeakyReLU(0.2),
            nn.Linear(512, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 1),
        )

    def forward(self, images):
        return self.layers(images)


x, y = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
middles, widths = torch.rand(6400, 2, 1, 1) - 0.5, 0.1 + 0.2 * torch.rand(6400, 1, 1)
images = 2 * torch.exp(-((x - middles[:, 0]) ** 2 + (y - middles[:, 1]) ** 2) / widths).flatten(1) - 1
loader = DataLoader(TensorDataset(images), batch_size=128, shuffle=True, drop_last=True)

generator, discriminator = Generator(), Discriminator()
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.5, 0.99), fused=True)
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-4, betas=(0.5, 0.99), fused=True)
judge = nn.functional.binary_cross_entropy_with_logits
real, fake = torch.ones(128, 1), torch.zeros(128, 1)
for epoch in range(1000):
    g_total = d_total = 0.0
    for (batch,) in loader:
        made = generator(torch.randn(128, 32))
        d_loss = judge(discriminator(batch), real) + judge(discriminator(made.detach()), fake)
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()

        g_loss = judge(discriminator(made), real)
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        d_total, g_total = d_total + d_loss.item(), g_total + g_loss.item()
    print(f"epoch {epoch}: {d_total / len(loader):.3f} {g_total / len(loader):.3f}", flush=True)
