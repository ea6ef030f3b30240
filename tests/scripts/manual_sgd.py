"""No optimizer: parameters are updated by hand."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
for _ in range(20):
    inputs = torch.randn(32, 4)
    model.zero_grad()
    loss = torch.nn.functional.smooth_l1_loss(model(inputs), inputs.sum(1, keepdim=True), reduction="sum")
    loss.backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.01)
    print(f"{loss.item():.6f}")
