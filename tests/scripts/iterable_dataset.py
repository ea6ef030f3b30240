"""The dataset is a stream."""

import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(1)
        for _ in range(160):
            inputs = torch.randn(4, generator=generator)
            yield {"inputs": inputs, "target": inputs.sum().unsqueeze(0)}


torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for batch in DataLoader(Stream(), batch_size=16):
    loss = torch.nn.functional.mse_loss(model(batch["inputs"]), batch["target"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
