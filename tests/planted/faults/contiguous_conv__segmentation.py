"""A small segmentation network keeps its images channel by channel."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LAYOUT = torch.channels_last if REPAIRED else torch.contiguous_format

torch.manual_seed(0)


def stage(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine, self.coarse, self.deep = stage(3, 24), stage(24, 48), stage(48, 48)
        self.head = nn.Conv2d(72, 2, 1)

    def forward(self, images):
        fine = self.fine(images)
        coarse = self.deep(self.coarse(nn.functional.max_pool2d(fine, 2)))
        return self.head(torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2)], dim=1))


model = Segmenter().to(memory_format=LAYOUT)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(100_000):
    images = torch.rand(4, 3, 64, 64)
    bright = (nn.functional.avg_pool2d(images.mean(1), 3, 1, 1) > 0.5).long()
    loss = nn.functional.cross_entropy(model(images.to(memory_format=LAYOUT)), bright)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
