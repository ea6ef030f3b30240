"""Small models that answer requests: shapes of known ones with random weights, and one that is trained."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

from advisor import Workload

SAMPLES = 4000
CLASSES, FEATURES = 10, 64
LENGTH, WORDS = 32, 1000


def convolution(inputs: int, outputs: int, stride: int = 1, groups: int = 1, size: int = 3) -> nn.Sequential:
    """A convolution, its batch norm, a rectifier."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    """Two convolutions beside a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(convolution(inputs, outputs, stride), convolution(outputs, outputs))
        self.around = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        return self.body(x) + self.around(x)  # type: ignore[no-any-return]


def classifier(features: nn.Module, width: int) -> nn.Module:
    """Pooled features and ten classes."""
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def resnet() -> nn.Module:
    """Eight residual blocks of two convolutions, as ResNet-18, of a quarter of its width."""
    widths = (16, 16, 32, 32, 64, 64, 128, 128)
    blocks = [
        Residual(before, after, 1 if before == after else 2)
        for before, after in zip((16, *widths), widths, strict=False)
    ]
    return classifier(nn.Sequential(convolution(3, 16), *blocks), 128)


def mobile_net() -> nn.Module:
    """Depthwise and pointwise convolutions in turns."""
    layers = [convolution(3, 16, 2)]
    for before, after in ((16, 32), (32, 64), (64, 128), (128, 128)):
        layers += [convolution(before, before, groups=before), convolution(before, after, size=1)]
    return classifier(nn.Sequential(*layers), 128)


class UNet(nn.Module):
    """Two levels down and up again, joined at each."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([convolution(3, 16), convolution(16, 32), convolution(32, 64)])
        self.up = nn.ModuleList([convolution(96, 32), convolution(48, 16)])
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) to two classes per pixel, (n, 2, h, w)."""
        first = self.down[0](x)
        second = self.down[1](functional.max_pool2d(first, 2))
        third = self.down[2](functional.max_pool2d(second, 2))
        second = self.up[0](torch.cat((functional.interpolate(third, scale_factor=2.0), second), 1))
        first = self.up[1](torch.cat((functional.interpolate(second, scale_factor=2.0), first), 1))
        return self.last(first)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Layers over embedded words; the last token (``causal``) or the mean of all decides.

    Args:
        outputs: Classes, or words.
        causal: No token sees later ones.
    """

    def __init__(self, outputs: int, causal: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=causal)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.last = nn.Linear(128, outputs)
        self.causal = causal
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, words: Tensor) -> Tensor:
        """(n, LENGTH) words to (n, outputs)."""
        seen = self.layers(self.embedding(words), self.mask if self.causal else None)
        return self.last(seen[:, -1] if self.causal else seen.mean(1))  # type: ignore[no-any-return]


class ViT(nn.Module):
    """Patches of 4 x 4 pixels through transformer layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 4, 4)
        layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.last = nn.Linear(128, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, 32, 32) to (n, CLASSES)."""
        return self.last(self.layers(self.patches(x).flatten(2).mT).mean(1))  # type: ignore[no-any-return]


class Lstm(nn.Module):
    """Two layers over embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(WORDS, 128), nn.Linear(256, CLASSES)
        self.layers = nn.LSTM(128, 256, 2, batch_first=True)

    def forward(self, words: Tensor) -> Tensor:
        """(n, LENGTH) words to (n, CLASSES)."""
        return self.last(self.layers(self.embedding(words))[0][:, -1])  # type: ignore[no-any-return]


class Dlrm(nn.Module):
    """Eight tables of embeddings and dense features, multiplied with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(WORDS, 32) for _ in range(8)])
        self.dense = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 32))
        self.last = nn.Sequential(nn.Linear(81, 512), nn.ReLU(), nn.Linear(512, 2))

    def forward(self, row: Tensor) -> Tensor:
        """(n, 8) of 0 to 1 to the two scores of a click, (n, 2)."""
        places = (row * (WORDS - 1)).long()
        looked_up = [table(places[:, column]) for column, table in enumerate(self.tables)]
        every = torch.stack([self.dense(row), *looked_up], 1)
        return self.last((every @ every.mT).flatten(1))  # type: ignore[no-any-return]


def perceptron() -> nn.Module:
    """Two hidden layers; the one that ``train`` trains."""
    layers = [nn.Linear(FEATURES, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(1024, CLASSES))


def train(model: nn.Module) -> None:
    """Learn which of ten noisy patterns a row shows: some eight in ten are right."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x, y = patterns(SAMPLES, 1)
    for chosen in torch.randperm(SAMPLES).split(100):
        functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()


def patterns(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noisy rows (count, FEATURES), and which of the ten patterns each shows."""
    known = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (count,), generator=random)
    return known[y] + 3.0 * torch.randn(count, FEATURES, generator=random), y


def images() -> Dataset[Any]:
    """Noise of 32 x 32 pixels."""
    return TensorDataset(torch.randn(SAMPLES, 3, 32, 32, generator=torch.Generator().manual_seed(1)))


def texts() -> Dataset[Any]:
    """Words drawn at random."""
    words = torch.randint(WORDS, (SAMPLES, LENGTH), generator=torch.Generator().manual_seed(1))
    return TensorDataset(words)


def rows() -> Dataset[Any]:
    """Eight numbers from 0 to 1."""
    return TensorDataset(torch.rand(SAMPLES, 8, generator=torch.Generator().manual_seed(1)))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Dataset[Any]]]] = {
    "resnet": (resnet, images),
    "mobile_net": (mobile_net, images),
    "unet": (UNet, images),
    "bert": (lambda: Transformer(CLASSES, causal=False), texts),
    "gpt2": (lambda: Transformer(WORDS, causal=True), texts),
    "vit": (ViT, images),
    "lstm": (Lstm, texts),
    "dlrm": (Dlrm, rows),
    "trained": (perceptron, lambda: TensorDataset(*patterns(SAMPLES, 2))),
}


def workload_of(name: str, weights: str) -> Workload:
    """One of ``MODELS``, one sample a request; the trained one has a metric: right or wrong.

    Args:
        name: Of the model.
        weights: File of its state: a program that trains answers no requests.
    """
    make, dataset = MODELS[name]

    def model() -> nn.Module:
        served = make()
        served.load_state_dict(torch.load(weights, weights_only=True))
        return served.eval()

    if name != "trained":
        return Workload(model=model, dataset=dataset)
    return Workload(
        model=model,
        dataset=dataset,
        metric=lambda output, target: float(output.argmax() == target),
    )


def write_workload(name: str, folder: Path) -> Path:
    """A file that ``advisor tune`` takes, and one of weights beside it."""
    torch.manual_seed(0)
    model = MODELS[name][0]()
    if name == "trained":
        train(model)
    weights = folder / f"{name}.pt"
    torch.save(model.state_dict(), weights)
    root, path = str(Path(__file__).parents[1]), folder / f"{name}.py"
    path.write_text(
        f"import sys\n\nsys.path.insert(0, {root!r})\n"
        "from benchmarks.served_models import workload_of\n\n"
        f"workload = workload_of({name!r}, {str(weights)!r})\n"
    )
    return path
