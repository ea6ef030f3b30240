"""Each picture is scaled and normalised pixel by pixel in Python before the small network sees it."""

import random
import sys
from array import array

import torch
from torch import nn
from torch.nn import functional

import advisor

REPAIRED = "--repaired" in sys.argv
SIDE = 32


def scaled(picture: list[list[int]]) -> "array[float]":
    step = len(picture) // SIDE
    pixels = array("f")
    for top in range(0, SIDE * step, step):
        for left in range(0, SIDE * step, step):
            values = [picture[top + y][left + x] for y in range(step) for x in range(step)]
            pixels.append(sum(values) / len(values) / 255 - 0.5)
    return pixels


def prepared(picture: list[list[int]], pixels: torch.Tensor) -> torch.Tensor:
    if REPAIRED:
        return functional.interpolate(pixels, (SIDE, SIDE), mode="area") / 255 - 0.5
    return torch.frombuffer(scaled(picture), dtype=torch.float32).reshape(1, 1, SIDE, SIDE)


random.seed(0)
torch.set_num_threads(1)
torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
    nn.Flatten(), nn.Linear(64 * 16 * 16, 10),
).eval()  # fmt: skip
pictures = [[[random.randrange(256) for _ in range(64)] for _ in range(64)] for _ in range(16)]
tensors = [torch.tensor(picture, dtype=torch.float32).reshape(1, 1, 64, 64) for picture in pictures]
with torch.inference_mode():
    for turn in range(1_000_000):
        with advisor.request():
            digit = network(prepared(pictures[turn % 16], tensors[turn % 16])).argmax()
