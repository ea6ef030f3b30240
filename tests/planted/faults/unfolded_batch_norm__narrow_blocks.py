"""A network that sharpens frames is served as it was trained: each thin convolution has its batch norm."""

import sys

import torch
from torch import nn
from torch.fx.experimental.optimization import fuse

REPAIRED = "--repaired" in sys.argv


def narrow(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))


torch.set_num_threads(1)
torch.manual_seed(0)
blocks = [narrow(8) for _ in range(24)]
network = nn.Sequential(nn.Conv2d(3, 8, 1), *blocks, nn.Conv2d(8, 3, 1)).eval()
if REPAIRED:
    network = fuse(network)
frames = torch.rand(32, 1, 3, 96, 96)
with torch.inference_mode():
    for turn in range(1_000_000):
        sharper = network(frames[turn % 32]).clamp(0, 1)
