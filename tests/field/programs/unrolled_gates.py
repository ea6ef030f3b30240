"""A recurrence written out: a product for each gate of each step of time."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
WIDTH = 48


class Gates(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.width = width
        self.keep = nn.Linear(inputs + width, width)
        self.take = nn.Linear(inputs + width, width)
        self.give = nn.Linear(inputs + width, width)
        self.new = nn.Linear(inputs + width, width)

    def forward(self, sequence):
        hidden = sequence.new_zeros(len(sequence), self.width)
        cell = torch.zeros_like(hidden)
        for moment in range(sequence.shape[1]):
            seen = torch.cat([sequence[:, moment], hidden], 1)
            keep = torch.sigmoid(self.keep(seen))
            take = torch.sigmoid(self.take(seen))
            cell = keep * cell + take * torch.tanh(self.new(seen))
            hidden = torch.sigmoid(self.give(seen)) * torch.tanh(cell)
        return hidden


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(8, WIDTH, batch_first=True) if REPAIRED else Gates(8, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, sequence):
        hidden = self.memory(sequence)[1][0][0] if REPAIRED else self.memory(sequence)
        return self.head(hidden)


model = Forecast()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
for step in range(20_000):
    sequence = torch.randn(32, 24, 8)
    loss = nn.functional.mse_loss(model(sequence), sequence[:, :, 0].mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item(), flush=True)
