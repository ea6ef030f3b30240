"""A recommender whose large tables have sparse gradients, trained by plain SGD."""

import torch
from torch import nn

USERS, ITEMS, WIDTH = 100_000, 200_000, 32

torch.manual_seed(0)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH, sparse=True)
        self.items = nn.Embedding(ITEMS, WIDTH, sparse=True)
        self.score = nn.Sequential(
            nn.Linear(2 * WIDTH, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, user, item):
        return self.score(torch.cat([self.users(user), self.items(item)], dim=1)).squeeze(1)


users, items = torch.randint(USERS, (2_000_000,)), torch.randint(ITEMS, (2_000_000,))
likes = ((users + items) % 3 == 0).float()
model = Recommender()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
