"""Wide layers in eight bits, configured for the engine that computes, calibrated on other samples."""

import warnings

import torch
from torch import nn
from torch.ao import quantization

torch.set_num_threads(1)
warnings.simplefilter("ignore")
torch.manual_seed(0)
model = nn.Sequential(
    quantization.QuantStub(), nn.Linear(768, 3072), nn.ReLU(), nn.Linear(3072, 768), nn.ReLU(),
    nn.Linear(768, 40), quantization.DeQuantStub(),
).eval()  # fmt: skip
model.qconfig = quantization.get_default_qconfig("x86")
training, requests = torch.randn(512, 768), torch.randn(256, 8, 768)
with torch.inference_mode():
    prepared = quantization.prepare(model)
    for rows in training.split(64):
        prepared(rows)
    small = quantization.convert(prepared)
    for turn in range(1_000_000):
        small(requests[turn % 256]).argmax(-1)
