"""A wide policy network learns from eight states per update, so most of a step goes to AdamW."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self, observations=64, width=1024, actions=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observations, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
        )
        self.head = nn.Linear(width, actions)

    def forward(self, state):
        return self.head(self.body(state))


policy = Policy()
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-4, fused=True if REPAIRED else None)
demonstrations = torch.randn(60_000, 64) / 2
chosen = (demonstrations @ torch.randn(64, 16)).argmax(1)
right = 0.0
for update in range(200_000):
    picked = torch.randint(60_000, (8,))
    states, actions = demonstrations[picked], chosen[picked]
    logits = policy(states)
    loss = nn.functional.cross_entropy(logits, actions)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    right = 0.99 * right + 0.01 * (logits.argmax(1) == actions).float().mean().item()
    if update % 500 == 0:
        print(f"update {update}: {right:.1%} as the expert", flush=True)
