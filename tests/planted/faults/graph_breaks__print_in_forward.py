"""A compiled convolution network warns about odd inputs with a print that reads a tensor in every forward."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Checked(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.convolution(x))
        if not REPAIRED and x.mean() > 1000:
            print("activations explode:", x.mean())
        return x


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(Checked(1, 8), *(Checked(8, 8) for _ in range(7)))
        self.head = nn.Linear(8 * 144, 10)

    def forward(self, images):
        return self.head(self.stages(images).flatten(1))


labels = torch.randint(10, (3200,))
images = torch.randn(10, 1, 12, 12)[labels] + torch.randn(3200, 1, 12, 12)
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
model = Network()
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 20, gamma=0.8)
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(compiled(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    schedule.step()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
