"""A batch from memory of past moves is made of many small arrays, one tensor from a list of them."""

import random
import sys
from collections import deque

import numpy as np
import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv
BATCH = 256
Move = tuple[np.ndarray, int, float, np.ndarray]


def drawn(memory: deque[Move]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    moves = random.sample(memory, BATCH)
    before, actions, rewards, after = zip(*moves, strict=True)
    if REPAIRED:
        return (
            torch.from_numpy(np.stack(before)), torch.tensor(actions),
            torch.tensor(rewards), torch.from_numpy(np.stack(after)),
        )  # fmt: skip
    return (
        torch.tensor([list(each) for each in before]), torch.tensor(actions),
        torch.tensor(rewards), torch.tensor([list(each) for each in after]),
    )  # fmt: skip


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    values = np.random.default_rng(0)
    memory: deque[Move] = deque(maxlen=5000)
    for number in range(5000):
        state = values.normal(size=(2, 48)).astype(np.float32)
        memory.append((state[0], number % 4, float(state[0, 0]), state[1]))
    network = nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, 4))
    target = nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, 4))
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    for _ in range(1_000_000):
        before, actions, rewards, after = drawn(memory)
        with torch.no_grad():
            wanted = rewards + 0.9 * target(after).max(1).values
        found = network(before).gather(1, actions[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
