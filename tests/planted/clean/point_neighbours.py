"""Points of a cloud meet each other by where they lie: each difference goes through a layer of its own."""

import torch
from torch import Tensor, nn

CLOUDS, POINTS, WIDTH, SHAPES = 16, 24, 96, 6

torch.manual_seed(0)


class Edges(nn.Module):
    """The largest of what each neighbour gives, as its difference to the point passes two layers."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.places = nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, points: Tensor) -> Tensor:
        return self.places(points[:, :, None] - points[:, None]).amax(2)


class Clouds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.edges = Edges(3)
        self.head = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, SHAPES))

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.edges(points).mean(1))


shapes = torch.randn(SHAPES, POINTS, 3)
labels = torch.randint(SHAPES, (12_000,))
clouds = shapes[labels] + 0.2 * torch.randn(len(labels), POINTS, 3)
model = Clouds()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for epoch in range(10_000):
    for part in torch.randperm(len(clouds)).split(CLOUDS):
        loss = nn.functional.cross_entropy(model(clouds[part]), labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
