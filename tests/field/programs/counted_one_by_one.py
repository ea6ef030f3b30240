"""A table of right and wrong answers is filled sample by sample after each step."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
KINDS, BATCH = 10, 128


def count(table: torch.Tensor, labels: torch.Tensor, answers: torch.Tensor) -> None:
    if REPAIRED:
        table += torch.bincount(labels * KINDS + answers, minlength=KINDS * KINDS).view(KINDS, KINDS)
        return
    for label, answer in zip(labels, answers, strict=True):
        table[label.long(), answer.long()] += 1


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, KINDS))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    table = torch.zeros(KINDS, KINDS)
    for _ in range(50_000):
        x, labels = torch.randn(BATCH, 64), torch.randint(0, KINDS, (BATCH,))
        answers = model(x)
        loss = nn.functional.cross_entropy(answers, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count(table, labels, answers.argmax(1))


main()
