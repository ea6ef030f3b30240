"""The whole memory of past moves is copied before a few of them are drawn."""

import sys

import numpy as np
import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv
ROOM, WIDTH, BATCH = 60_000, 64, 128


class Memory:
    def __init__(self) -> None:
        self.moves = {"state": np.zeros((ROOM, WIDTH), np.float32), "value": np.zeros(ROOM, np.float32)}
        self.filled = 0
        self.rng = np.random.default_rng(0)

    def add(self, states: np.ndarray, values: np.ndarray) -> None:
        place = np.arange(self.filled, self.filled + len(states)) % ROOM
        self.moves["state"][place], self.moves["value"][place] = states, values
        self.filled += len(states)

    def draw(self) -> tuple[Tensor, Tensor]:
        known = min(self.filled, ROOM)
        there = {name: part[:known] if REPAIRED else part[:known].copy() for name, part in self.moves.items()}
        chosen = self.rng.integers(known, size=BATCH)
        return torch.from_numpy(there["state"][chosen]), torch.from_numpy(there["value"][chosen])


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    memory = Memory()
    world = np.random.default_rng(1)
    for _ in range(1_000_000):
        states = world.normal(size=(32, WIDTH)).astype(np.float32)
        memory.add(states, states.sum(1))
        states_drawn, values = memory.draw()
        loss = nn.functional.mse_loss(model(states_drawn)[:, 0], values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
