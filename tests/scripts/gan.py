"""Two optimizers take turns: a generator and a discriminator."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, noise):
        return self.layers(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, image):
        return self.layers(image)


generator, discriminator = Generator(), Discriminator()
adversarial = nn.BCELoss()
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-3)
for images in DataLoader(torch.randn(192, 8), batch_size=16, shuffle=True):
    valid, fake = torch.ones(len(images), 1), torch.zeros(len(images), 1)
    g_optimizer.zero_grad()
    made = generator(torch.randn(len(images), 4))
    g_loss = adversarial(discriminator(made), valid)
    g_loss.backward()
    g_optimizer.step()
    d_optimizer.zero_grad()
    d_loss = (adversarial(discriminator(images), valid) + adversarial(discriminator(made.detach()), fake)) / 2
    d_loss.backward()
    d_optimizer.step()
    print(f"{g_loss.item():.6f} {d_loss.item():.6f}")
