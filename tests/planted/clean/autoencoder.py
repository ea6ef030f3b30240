"""A convolutional autoencoder learns to remove noise from images that it draws itself."""

import torch
from torch import nn

torch.manual_seed(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 24, 3, 2, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, padding=1), nn.ReLU()
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(48, 24, 4, 2, padding=1), nn.ReLU(), nn.ConvTranspose2d(24, 1, 4, 2, padding=1)
        )

    def forward(self, images):
        return self.decoder(self.encoder(images))


model = Autoencoder()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
across, down = torch.meshgrid(torch.linspace(0, 6, 32), torch.linspace(0, 6, 32), indexing="ij")
running = None
for step in range(200_000):
    angle, phase = torch.rand(2, 24, 1, 1) * 6.28
    clean = torch.sin(across * angle.cos() * 2 + down * angle.sin() * 2 + phase).unsqueeze(1)
    loss = nn.functional.l1_loss(model(clean + 0.3 * torch.randn_like(clean)), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
    if step % 200 == 0:
        print(f"step {step}: {running:.4f}", flush=True)
