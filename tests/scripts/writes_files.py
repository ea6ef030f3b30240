"""Writes a log, a folder of checkpoints and reads them back."""

import os

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
os.makedirs("runs", exist_ok=True)
with open("runs/log.txt", "w") as log:
    for step in range(12):
        inputs = torch.randn(16, 4)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
        log.write(f"{step} {loss.item():.6f}\n")
        if step % 6 == 5:
            torch.save(model.state_dict(), "runs/last.pt")
            model.load_state_dict(torch.load("runs/last.pt"))
print(sorted(os.listdir("runs")))
