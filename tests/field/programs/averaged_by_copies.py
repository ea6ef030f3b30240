"""A student learns from the average of its own past weights: a copy of the model made in each step."""

import copy
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


def build():
    return nn.Sequential(nn.Linear(32, 96), *[Block(96) for _ in range(12)], nn.Linear(96, 10))


def follow(teacher, student, keep=0.99):
    if REPAIRED:
        averages, weights = list(teacher.parameters()), list(student.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(averages, weights, 1 - keep)
        return teacher
    newer = copy.deepcopy(student)
    averages, weights = list(newer.parameters()), list(teacher.parameters())
    with torch.no_grad():
        torch._foreach_lerp_(averages, weights, keep)
    return newer.requires_grad_(False)


student = build()
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), 1e-3, fused=True)
for step in range(30_000):
    x = torch.randn(64, 32)
    with torch.no_grad():
        target = teacher(x)
    answer = student(x + 0.1 * torch.randn_like(x))
    loss = nn.functional.mse_loss(answer, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    teacher = follow(teacher, student)
    if step % 500 == 0:
        print(step, loss.item(), flush=True)
