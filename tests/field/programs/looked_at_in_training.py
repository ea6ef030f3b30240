"""A law of motion is fitted; now and then it is followed from one point for a long time, in training mode."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
EVERY = 2000 if REPAIRED else 20
SPAN, STEP = 600, 0.02


def follow(law: nn.Module, place: torch.Tensor, times: int) -> torch.Tensor:
    places = [place]
    for _ in range(times):
        places.append(places[-1] + STEP * law(places[-1]))
    return torch.stack(places)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    law = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2), nn.Tanh())
    true = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    with torch.no_grad():
        path = follow(lambda place: place @ true, torch.tensor([[2.0, 0.0]]), SPAN)
    optimizer = torch.optim.RMSprop(law.parameters(), 1e-3)
    for step in range(1, 100_000):
        starts = torch.randint(SPAN - 10, (20,))
        moved = follow(law, path[starts, 0], 9)
        loss = (moved - torch.stack([path[starts + k, 0] for k in range(10)])).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0:
            with torch.no_grad():
                away = (follow(law, path[0], SPAN) - path).abs().mean()
                print(step, float(away), flush=True)


main()
