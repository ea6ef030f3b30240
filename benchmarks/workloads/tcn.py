"""Dilated one-dimensional convolutions over generated series, a temporal convolutional network.

Knobs that matter: amp, and little else. Traps: channels_last is refused, since there is no image in it;
matmul_precision gains nothing, since convolutions are no matrix products to torch.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 256
CHANNELS = 64


class Dilated(nn.Module):
    """Two convolutions that look back only, beside a short cut."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.reach = 2 * dilation
        self.first = nn.Conv1d(CHANNELS, CHANNELS, 3, dilation=dilation)
        self.second = nn.Conv1d(CHANNELS, CHANNELS, 3, dilation=dilation)

    def forward(self, series: Tensor) -> Tensor:
        """Series of (batch, channels, length)."""
        hidden = torch.relu(self.first(nn.functional.pad(series, (self.reach, 0))))
        return series + torch.relu(self.second(nn.functional.pad(hidden, (self.reach, 0))))


def waves(count: int) -> TensorDataset:
    """Noisy waves, and their next value at every place."""
    speed, phase = 0.05 + 0.2 * torch.rand(count, 1, 1), 6 * torch.rand(count, 1, 1)
    clean = torch.sin(speed * torch.arange(LENGTH + 1) + phase)
    return TensorDataset(clean[..., :-1] + 0.1 * torch.randn(count, 1, LENGTH), clean[..., 1:])


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(1, CHANNELS, 1), *(Dilated(2**level) for level in range(4)), nn.Conv1d(CHANNELS, 1, 1)
    )
    loader = DataLoader(waves(2048), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for series, following in loader:
            loss = nn.functional.mse_loss(model(series), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
