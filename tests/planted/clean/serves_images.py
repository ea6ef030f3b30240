"""Answers pictures with a small network that was folded, and answered once before the first request."""

import torch
from torch import nn
from torch.fx.experimental.optimization import fuse

import advisor


def block(inputs: int, outputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


torch.set_num_threads(1)
torch.manual_seed(0)
network = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten())
network = fuse(network.eval())
pictures = torch.rand(64, 1, 3, 96, 96)
with torch.inference_mode():
    network(pictures[0])
    for turn in range(1_000_000):
        with advisor.request():
            network(pictures[turn % 64]).argmax(-1)
