"""A character-level transformer that cuts its own batches out of one long text."""

import torch
from torch import nn

LENGTH, WIDTH, HEADS, BATCH = 64, 128, 4, 6

torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.inputs(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class CharacterModel(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, text):
        x = self.tokens(text) + self.places.weight[: text.shape[1]]
        return self.head(self.norm(self.blocks(x)))


text = torch.randint(40, (211,)).repeat(10_000)
text = torch.where(torch.rand(len(text)) < 0.05, 0, text)
model = CharacterModel(40)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5000)
for step in range(100_000):
    starts = torch.randint(len(text) - LENGTH - 1, (BATCH, 1))
    window = text[starts + torch.arange(LENGTH + 1)]
    loss = nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
