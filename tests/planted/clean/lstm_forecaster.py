"""An LSTM forecasts noisy waves that a DataLoader hands out in windows."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.recurrent = nn.LSTM(4, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 4)

    def forward(self, window):
        states, _ = self.recurrent(window)
        return self.head(states[:, -1])


time = torch.arange(20_000) * torch.tensor([[0.05], [0.11], [0.17], [0.23]])
signal = (torch.sin(time) + 0.1 * torch.randn(4, 20_000)).T.contiguous()
windows = signal.unfold(0, 33, 1).transpose(1, 2)
windows = (windows - windows.mean()) / windows.std()
loader = DataLoader(TensorDataset(windows[:, :-1], windows[:, -1]), batch_size=64, shuffle=True)

model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
for epoch in range(1000):
    total = 0.0
    for window, following in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(window), following)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
