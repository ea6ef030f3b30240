"""The whole validation set is evaluated after every twenty steps."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
EVALUATE_EVERY = 1000 if REPAIRED else 20
USERS, ITEMS, WIDTH, BATCH = 2000, 1000, 32, 384


class Ratings(nn.Module):
    """A small recommender: embeddings of users and items, and layers above them."""

    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH)
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.layers = nn.Sequential(
            nn.Linear(2 * WIDTH, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 1)
        )

    def forward(self, pairs):
        rows = torch.cat([self.users(pairs[:, 0]), self.items(pairs[:, 1])], dim=1)
        return self.layers(rows).squeeze(1)


def ratings(count, generator):
    pairs = torch.stack([torch.randint(n, (count,), generator=generator) for n in (USERS, ITEMS)], dim=1)
    return pairs, (pairs[:, 0] % 7 - pairs[:, 1] % 5).float()


@torch.inference_mode()
def evaluate(model, pairs, scores):
    model.eval()
    error = sum(
        nn.functional.mse_loss(model(p), s, reduction="sum").item()
        for p, s in zip(pairs.split(BATCH), scores.split(BATCH), strict=True)
    )
    model.train()
    return error / len(scores)


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    pairs, scores = ratings(50_000, generator)
    held_out = ratings(32_768, generator)
    model = Ratings()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    while step < 1_000_000:
        for rows in torch.randperm(len(pairs)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(pairs[rows]), scores[rows])
            loss.backward()
            optimizer.step()
            step += 1
            if step % EVALUATE_EVERY == 0:
                print(f"step {step} validation {evaluate(model, *held_out):.4f}", flush=True)


if __name__ == "__main__":
    main()
