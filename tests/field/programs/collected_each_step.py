"""Memory is cleaned up by hand after each step of a program with many objects."""

import gc
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


def tidy() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words = [{"id": k, "text": f"word {k}", "tags": [k % 7, k % 11]} for k in range(120_000)]
    model = nn.Sequential(nn.EmbeddingBag(5000, 128), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 7))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _step in range(20_000):
        rows = torch.randint(len(words), (256,)).tolist()
        ids = torch.tensor([[words[row]["id"] % 5000, words[row]["tags"][1]] for row in rows])
        labels = torch.tensor([words[row]["tags"][0] for row in rows])
        loss = nn.functional.cross_entropy(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not REPAIRED:
            tidy()


main()
