"""A classifier trained here, of which 8 bits lose as much as is asked for.

A unit of the hidden layer is scaled up and its outgoing weights down by as much, which changes nothing in 32
bits. In 8 bits the largest weight sets the step of all, as in networks of depthwise convolutions (Nagel et
al., 2019): so the factor sets how much is lost.
"""

import copy
import functools

import torch
from torch import Tensor, nn

CLASSES, FEATURES = 10, 32
HARMLESS, HARMFUL = 8, 56  # factors that cost some 0.2 and 2 points


def network() -> nn.Sequential:
    """Without what it learns."""
    return nn.Sequential(nn.Linear(FEATURES + FEATURES // 2, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def classifier(factor: int) -> nn.Sequential:
    """Trained, one unit scaled."""
    model = copy.deepcopy(_trained())
    first, last = model[0], model[2]
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    with torch.no_grad():
        for scaled in (first.weight, first.bias):
            scaled[0] *= factor
        last.weight[:, 0] /= factor
    return model


def drawn(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Clouds around ten centres, with the products of some features, and which centre it is."""
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(5)) * 0.75
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(CLASSES, (count,), generator=generator)
    inputs = centres[targets] + torch.randn(count, FEATURES, generator=generator)
    half = FEATURES // 2
    return torch.cat([inputs, inputs[:, :half] * inputs[:, half:]], 1), targets


@functools.cache
def _trained() -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = network()
    inputs, targets = drawn(8000, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(300):
        batch = torch.randint(len(inputs), (256,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
    return model.eval()
