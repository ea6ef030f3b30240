"""The program uses autocast and a gradient scaler itself; one step overflows and is skipped."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(12):
    inputs = torch.randn(16, 8)
    if step == 4:
        inputs[0, 0] = float("inf")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(inputs).float() - 1).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(f"{loss.item():.6f}")
