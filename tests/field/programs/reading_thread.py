"""A thread of the program makes batches in Python, and takes turns with the training."""

import queue
import sys
import threading

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


def a_batch(seed: int) -> list[list[float]]:
    if REPAIRED:
        return torch.rand(32, 64, generator=torch.Generator().manual_seed(seed)).tolist()
    rows = []
    for row in range(32):
        state = seed * 32 + row + 1
        values = []
        for _ in range(64 * 8):
            state = (1103515245 * state + 12345) % 2**31
            values.append(state / 2**31)
        rows.append(values[::8])
    return rows


def read(batches: "queue.Queue[list[list[float]]]") -> None:
    seed = 0
    while True:
        batches.put(a_batch(seed))
        seed += 1


def main() -> None:
    torch.manual_seed(0)
    batches: queue.Queue[list[list[float]]] = queue.Queue(4)
    threading.Thread(target=read, args=(batches,), name="reader", daemon=True).start()
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(100_000):
        x = torch.tensor(batches.get())
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
