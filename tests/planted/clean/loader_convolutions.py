"""An image classifier with a DataLoader over tensors in memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(10, (2048,))
images = torch.randn(10, 3, 24, 24)[labels] + torch.randn(2048, 3, 24, 24)
train = DataLoader(TensorDataset(images[:1920], labels[:1920]), batch_size=32, shuffle=True)
test = DataLoader(TensorDataset(images[1920:], labels[1920:]), batch_size=64)

model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(64 * 36, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
for epoch in range(1000):
    model.train()
    total = 0.0
    for batch, wanted in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), wanted)
        loss.backward()
        optimizer.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        right = sum(int((model(batch).argmax(1) == wanted).sum()) for batch, wanted in test)
    print(f"epoch {epoch}: loss {total / len(train):.4f}, {right / 128:.1%} right", flush=True)
