"""Layers of few factors, written as an einsum that leaves the least at each product."""

import torch
from torch import Tensor, nn

WIDTH, RANK, BATCH = 768, 24, 256

torch.manual_seed(0)


class Factored(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(inputs, RANK) / inputs**0.5)
        self.up = nn.Parameter(torch.randn(RANK, outputs) / RANK**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bi,ir,ro->bo", x, self.down, self.up) + self.bias


teacher = torch.randn(64, 10)
inputs = torch.randn(30_000, 64)
labels = (inputs @ teacher).argmax(1)
model = nn.Sequential(
    nn.Linear(64, WIDTH), nn.ReLU(), Factored(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
    Factored(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
for epoch in range(10_000):
    order = torch.randperm(len(inputs))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        part = order[start : start + BATCH]
        loss = nn.functional.cross_entropy(model(inputs[part]), labels[part])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
