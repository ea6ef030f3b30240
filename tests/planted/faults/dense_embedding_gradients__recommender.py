"""A recommender reads 512 rows of a large item table per step and updates all of them."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
USERS, ITEMS, WIDTH = 5_000, 120_000, 32

torch.manual_seed(0)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH, sparse=REPAIRED)
        self.items = nn.Embedding(ITEMS, WIDTH, sparse=REPAIRED)
        self.score = nn.Sequential(nn.Linear(2 * WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, item):
        return self.score(torch.cat([self.users(user), self.items(item)], dim=1)).squeeze(1)


users, items = torch.randint(USERS, (3_000_000,)), torch.randint(ITEMS, (3_000_000,))
likes = ((users + items) % 3 == 0).float()
model = Recommender()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
running = 0.7
for step in range(200_000):
    picked = torch.randint(len(likes), (512,))
    scores = model(users[picked], items[picked])
    loss = nn.functional.binary_cross_entropy_with_logits(scores, likes[picked])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running = 0.99 * running + 0.01 * loss.item()
    if step % 500 == 0:
        print(f"step {step}: {running:.4f}", flush=True)
