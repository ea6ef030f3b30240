"""A policy plays without gradients between its updates, one state at a time."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LENGTH, PLAYERS = 20, 32


class World:
    """Many players pushed towards a goal."""

    def __init__(self, players: int) -> None:
        self.place = torch.zeros(players, 8)

    def move(self, action: torch.Tensor) -> torch.Tensor:
        self.place = 0.9 * self.place + 0.1 * nn.functional.one_hot(action, 8)
        return self.place


def play(policy: nn.Module, worlds: list[World]) -> tuple[torch.Tensor, torch.Tensor]:
    states, actions = [], []
    with torch.no_grad():
        for _ in range(LENGTH):
            for world in worlds:
                state = world.place
                action = torch.distributions.Categorical(logits=policy(state)).sample()
                world.move(action)
                states.append(state)
                actions.append(action)
    return torch.cat(states), torch.cat(actions)


def main() -> None:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
    worlds = [World(PLAYERS)] if REPAIRED else [World(1) for _ in range(PLAYERS)]
    for _ in range(50_000):
        states, actions = play(policy, worlds)
        for _ in range(8):
            loss = nn.functional.cross_entropy(policy(states), actions)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
