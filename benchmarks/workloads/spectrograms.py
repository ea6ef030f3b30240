"""Sounds told apart by their spectrograms, which are computed anew each time a sound is read.

Knobs that matter: in_memory_cache, since a spectrogram is always the same, and threads. Trap: one epoch
must go by before the cache gives anything; a comparison that ends earlier sees only what it costs.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 8000
TONES = 8

Sound = tuple[Tensor, int]


class Sounds(Dataset[Sound]):
    """Tones in noise, as the logarithm of a short-time Fourier transform."""

    def __init__(self, count: int) -> None:
        self.tones = torch.randint(TONES, (count,))
        speed = 0.1 + 0.2 * self.tones[:, None]
        self.waves = torch.sin(speed * torch.arange(SAMPLES)) + 0.5 * torch.randn(count, SAMPLES)
        self.window = torch.hann_window(512)

    def __len__(self) -> int:
        return len(self.tones)

    def __getitem__(self, index: int) -> Sound:
        spectrum = torch.stft(self.waves[index], 512, 128, window=self.window, return_complex=True)
        image = nn.functional.interpolate(
            (spectrum.abs() + 1e-3).log()[None, None], size=(32, 32), mode="area"
        )
        return image[0], int(self.tones[index])


def classifier() -> nn.Module:
    """Images of one channel and 32 x 32 pixels to scores of the tones."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, TONES),
    )  # fmt: skip


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = classifier()
    loader = DataLoader(Sounds(512), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for images, tones in loader:
            loss = nn.functional.cross_entropy(model(images), tones)
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
