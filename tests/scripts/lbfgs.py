"""The optimizer evaluates its closure many times per step; numbers are float64."""

import torch

torch.manual_seed(0)
inputs = torch.linspace(0, 6, 64, dtype=torch.float64).unsqueeze(1)
model = torch.nn.Sequential(torch.nn.Linear(1, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5)


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sin())
    loss.backward()
    return loss


for _ in range(6):
    print(f"{optimizer.step(closure).item():.6f}")
