"""Quantised with the configuration for phones, and served by the engine of a server."""

import sys
import warnings

import torch
from torch import nn
from torch.ao import quantization

REPAIRED = "--repaired" in sys.argv
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    quantization.QuantStub(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
    nn.Linear(512, 16), quantization.DeQuantStub(),
).eval()  # fmt: skip
model.qconfig = quantization.get_default_qconfig("x86" if REPAIRED else "qnnpack")
training, requests = torch.randn(400, 256), torch.randn(512, 8, 256)
with torch.inference_mode():
    prepared = quantization.prepare(model)
    for first in range(0, 400, 50):
        prepared(training[first : first + 50])
    small = quantization.convert(prepared)
    for turn in range(1_000_000):
        small(requests[turn % 512]).argmax(-1)
