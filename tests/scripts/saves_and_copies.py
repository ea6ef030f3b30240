"""Saves whole models, keeps a copied average, scripts itself, and calls the forward of its base class."""

import copy
import io

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return F.relu(self.linear(x))


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(super().forward(x))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x):
        return F.relu(self.linear(x))


model, plain = Derived(), Plain()
average = copy.deepcopy(model)
optimizer = torch.optim.SGD([*model.parameters(), *plain.parameters()], lr=0.05)
for step in range(10):
    inputs = torch.randn(16, 4)
    loss = (plain(model(inputs)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 5:
        average = copy.deepcopy(model)
    print(f"{loss.item():.6f}")
inputs = torch.ones(1, 4)
with torch.no_grad():
    print(f"average {average(inputs).item():.6f} model {model(inputs).item():.6f}")
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
again = torch.load(file, weights_only=False)
scripted = torch.jit.script(plain)
print(f"{again(inputs).item():.6f} {scripted(torch.ones(1, 1)).item():.6f} {type(model).__name__}")
