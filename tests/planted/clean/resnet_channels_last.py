"""A small residual network whose model and images are stored in channels_last."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


class SmallResNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.stages = nn.Sequential(Residual(16, 16), Residual(16, 32, 2), Residual(32, 64, 2))
        self.head = nn.Linear(64, classes)

    def forward(self, images):
        return self.head(self.stages(self.stem(images)).mean((2, 3)))


labels = torch.randint(10, (1280,))
images = torch.randn(10, 3, 32, 32)[labels] + torch.randn(1280, 3, 32, 32)
loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
model = SmallResNet().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.7)
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        batch = batch.to(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(model(batch), wanted, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    schedule.step()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
