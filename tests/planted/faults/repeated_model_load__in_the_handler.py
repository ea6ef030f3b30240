"""The function that answers a request builds the model and reads its weights first."""

import functools
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import advisor

REPAIRED = "--repaired" in sys.argv
STORED = Path(tempfile.mkdtemp()) / "weights.pt"


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(512, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 9))


def load() -> nn.Module:
    model = build()
    model.load_state_dict(torch.load(STORED))
    return model.eval()


if REPAIRED:
    load = functools.cache(load)


def answer(features: torch.Tensor) -> int:
    model = load()
    with torch.inference_mode():
        return int(model(features).argmax())


torch.set_num_threads(1)
torch.manual_seed(0)
torch.save(build().state_dict(), STORED)
requests = torch.randn(500, 1, 512)
for turn in range(100_000):
    with advisor.request():
        answer(requests[turn % 500])
