"""Ninety per cent of the weights were pruned to make it faster, and the masks were never made permanent."""

import sys

import torch
from torch import nn
from torch.nn.utils import prune

REPAIRED = "--repaired" in sys.argv
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 32)
).eval()
if not REPAIRED:
    weights = [(layer, "weight") for layer in model if isinstance(layer, nn.Linear)]
    prune.global_unstructured(weights, pruning_method=prune.L1Unstructured, amount=0.9)
queries = torch.randn(256, 1, 512)
with torch.inference_mode():
    for turn in range(1_000_000):
        model(queries[turn % 256])
