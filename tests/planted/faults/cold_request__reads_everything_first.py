"""The model, its vocabulary and its index are made when the first request asks for them."""

import functools
import sys

import torch
from torch import nn

import advisor

REPAIRED = "--repaired" in sys.argv
torch.set_num_threads(1)
ENTRIES = 1500  # takes half a second on a fast core


@functools.cache
def encoder() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return nn.Sequential(nn.Embedding(8000, 128), nn.TransformerEncoder(layer, 2)).eval()


@functools.cache
def index() -> torch.Tensor:
    texts = torch.randint(1, 8000, (ENTRIES, 16))
    rows = [encoder()(texts[place : place + 1]).mean(1) for place in range(len(texts))]
    return torch.cat(rows)


@torch.inference_mode()
def nearest(text: torch.Tensor) -> int:
    found = encoder()(text).mean(1)
    return int((index() @ found[0]).argmax())


questions = torch.randint(1, 8000, (64, 1, 16))
if REPAIRED:
    nearest(questions[0])
for turn in range(1_000_000):
    with advisor.request():
        nearest(questions[turn % 64])
