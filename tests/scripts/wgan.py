"""Five updates of the critic to one of the generator."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
c_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
g_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
for index, images in enumerate(DataLoader(torch.randn(320, 8), batch_size=16, shuffle=True)):
    c_optimizer.zero_grad()
    made = generator(torch.randn(len(images), 4)).detach()
    c_loss = critic(made).mean() - critic(images).mean()
    c_loss.backward()
    c_optimizer.step()
    for parameter in critic.parameters():
        parameter.data.clamp_(-0.1, 0.1)
    print(f"{c_loss.item():.6f}")
    if index % 5 == 4:
        g_optimizer.zero_grad()
        g_loss = -critic(generator(torch.randn(16, 4))).mean()
        g_loss.backward()
        g_optimizer.step()
