"""Gradients of four batches are accumulated, clipped and applied, with a warm-up of the learning rate."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATED = 4

torch.manual_seed(0)
labels = torch.randint(20, (3072,))
sequences = torch.randn(20, 32, 48)[labels] + 1.5 * torch.randn(3072, 32, 48)
loader = DataLoader(TensorDataset(sequences, labels), batch_size=8, shuffle=True, drop_last=True)


class Classifier(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.inputs = nn.Linear(48, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 20)

    def forward(self, x):
        return self.head(self.encoder(self.inputs(x)).mean(1))


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=100)
for epoch in range(1000):
    total = 0.0
    for number, (batch, wanted) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(batch), wanted)
        (loss / ACCUMULATED).backward()
        total += loss.item()
        if number % ACCUMULATED == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
