"""A transformer computes under bfloat16 autocast, with batches large enough to gain from it."""

import torch
from torch import nn

LENGTH, WIDTH, BATCH, WORDS = 32, 256, 10, 64

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, sentence):
        return self.head(self.encoder(self.words(sentence) + self.places.weight))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
for step in range(100_000):
    first, stride = torch.randint(WORDS, (BATCH, 1)), torch.randint(1, 4, (BATCH, 1))
    sentence = (first + stride * torch.arange(LENGTH)) % WORDS
    hidden = sentence.masked_fill(torch.rand(BATCH, LENGTH) < 0.2, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(hidden).flatten(0, 1), sentence.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
