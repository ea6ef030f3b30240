"""ResNet-18 for images of 28 x 28 pixels in ten classes, as a workload file.

The network keeps the small images large for long: a 3 x 3 stem with stride 1 and no pooling before the
first block. The images are generated, one blurred pattern per class under noise, so nothing has to be
downloaded and the loss can fall.
"""

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import advisor

CLASSES = 10
IMAGES = 2048


class Residual(nn.Module):
    """Two convolutions beside a short cut; a stride halves the image and 1 x 1 fits the short cut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
        )
        same = channels_in == channels_out and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels_in, channels_out, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Images of (batch, channels, height, width)."""
        return torch.relu(self.body(images) + self.shortcut(images))


def resnet18() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(1, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(before, channels, stride), Residual(channels, channels, 1)]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def images() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(CLASSES, 1, 7, 7, generator=generator)
    patterns = nn.functional.interpolate(patterns, size=28, mode="bilinear")
    labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
    noise = torch.randn(IMAGES, 1, 28, 28, generator=generator)
    return TensorDataset(patterns[labels] + 0.5 * noise, labels)


workload = advisor.Workload(
    model=resnet18,
    dataset=images,
    loss=nn.functional.cross_entropy,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    batch_size=32,
)
