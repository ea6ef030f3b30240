"""A large graph of Python objects is alive, and `gc.collect()` walks through it after every twenty steps."""

import gc
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
COLLECT_EVERY, BATCH = 20, 64


class Person:
    """Knows friends who know this person."""

    def __init__(self, number):
        self.number = number
        self.friends = []
        self.features = {"age": number % 80, "visits": number % 11}


def people(count):
    everyone = [Person(number) for number in range(count)]
    for person in everyone:
        for step in (1, 7, 31):
            friend = everyone[(person.number + step) % count]
            person.friends.append(friend)
            friend.friends.append(person)
    return everyone


def tensors(everyone):
    rows = [[p.features["age"] / 80, p.features["visits"] / 11, len(p.friends) / 6] for p in everyone]
    features = torch.tensor(rows)
    targets = torch.tensor([sum(f.features["visits"] for f in p.friends) / 66 for p in everyone])
    return features, targets


def main():
    torch.manual_seed(0)
    everyone = people(30_000)
    features, targets = tensors(everyone)
    model = nn.Sequential(
        nn.Linear(3, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, 1),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(1_000_000):
        rows = torch.randint(len(everyone), (BATCH,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(features[rows]).squeeze(1), targets[rows])
        loss.backward()
        optimizer.step()
        if step % COLLECT_EVERY == 0:
            gc.collect()
            if REPAIRED and step == COLLECT_EVERY:  # after what the first steps import and keep
                gc.freeze()
        if step % 500 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
