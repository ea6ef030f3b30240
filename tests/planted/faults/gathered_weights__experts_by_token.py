"""A mixture of experts picks the weights of each token's expert by an index."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
TOKENS, WIDTH, HIDDEN, EXPERTS = 192, 64, 128, 8

torch.set_num_threads(1)
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) / HIDDEN**0.5)

    def forward(self, x):
        weight, expert = self.router(x).softmax(dim=-1).max(dim=-1)
        if REPAIRED:
            order = expert.argsort()
            parts = x[order].split(expert.bincount(minlength=EXPERTS).tolist())
            answers = [
                nn.functional.gelu(part @ up) @ down
                for part, up, down in zip(parts, self.up.unbind(), self.down.unbind(), strict=True)
            ]
            y = torch.cat(answers)[order.argsort()]
        else:
            hidden = nn.functional.gelu(torch.bmm(x.unsqueeze(1), self.up[expert]))
            y = torch.bmm(hidden, self.down[expert]).squeeze(1)
        return x + weight.unsqueeze(1) * y


inputs, targets = torch.randn(60_000, WIDTH), torch.randn(60_000, 1)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Experts(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for step in range(1_000_000):
    picked = torch.randint(len(inputs), (TOKENS,))
    loss = nn.functional.mse_loss(model(inputs[picked]), targets[picked])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
