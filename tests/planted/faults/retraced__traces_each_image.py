"""Traces the network for each image, because somebody read that traced networks are faster."""

import sys

import torch
from torch import nn

import advisor

REPAIRED = "--repaired" in sys.argv


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.SiLU())


torch.set_num_threads(1)
torch.manual_seed(0)
network = nn.Sequential(block(3, 24), block(24, 48), block(48, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten())
network.eval()
images = torch.rand(64, 1, 3, 64, 64)
with torch.inference_mode():
    fast = torch.jit.trace(network, images[0])
    for turn in range(100_000):
        with advisor.request():
            image = images[turn % 64]
            if not REPAIRED:
                fast = torch.jit.trace(network, image)
            embedding = fast(image)
            embedding = embedding / embedding.norm()
