"""Everything was quantised to eight bits, also the layers that are too small to gain by it."""

import sys
import warnings

import torch
from torch import nn
from torch.ao import quantization

REPAIRED = "--repaired" in sys.argv
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [layer for _ in range(20) for layer in (nn.Linear(48, 48), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(48, 3)).eval()
if not REPAIRED:
    model = quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
readings = torch.randn(1024, 1, 48)
with torch.inference_mode():
    for turn in range(1_000_000):
        model(readings[turn % 1024])
