"""Each item of a set of sounds makes the same bank of filters anew."""

import math
import sys

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
RATE, BINS, BANDS = 16_000, 129, 24


def bank() -> np.ndarray:
    """Triangles over the bins of a spectrum, evenly spaced in mel."""
    high = 2595 * math.log10(1 + RATE / 2 / 700)
    edges = [700 * (10 ** (high * k / (BANDS + 1) / 2595) - 1) for k in range(BANDS + 2)]
    weights = np.zeros((BANDS, BINS), dtype=np.float32)
    for band in range(BANDS):
        low, middle, top = edges[band : band + 3]
        for place in range(BINS):
            tone = place * RATE / 2 / (BINS - 1)
            weights[band, place] = max(0.0, min((tone - low) / (middle - low), (top - tone) / (top - middle)))
    return weights


class Sounds(Dataset[Tensor]):
    def __init__(self) -> None:
        self.waves = np.random.default_rng(0).normal(size=(256, 4096)).astype(np.float32)
        self.kept = bank()

    def __len__(self) -> int:
        return len(self.waves)

    def __getitem__(self, index: int) -> Tensor:
        frames = self.waves[index].reshape(16, 256)
        power = np.abs(np.fft.rfft(frames)).astype(np.float32) ** 2
        weights = self.kept if REPAIRED else bank()
        return torch.from_numpy(np.log(power @ weights.T + 1e-6))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Sounds(), batch_size=4, shuffle=True)
    model = nn.GRU(BANDS, 96, batch_first=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(1000):
        for batch in loader:
            loss = model(batch)[0].square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
