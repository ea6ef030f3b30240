"""Batch norms become part of the convolutions before them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from builders import a_rich_profile, a_root
from torch import nn

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.fold_conv_bn import FoldConvBn

IMAGE = torch.linspace(-1, 1, 3 * 8 * 8).reshape(1, 3, 8, 8)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.shared = nn.BatchNorm2d(3)

    def forward(self, image: torch.Tensor) -> Any:
        first = self.norm(self.conv(image))
        return self.shared(self.shared(first)) + image


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

    def forward(self, image: torch.Tensor) -> Any:
        return self.body(image) if image.sum() > 0 else image


def worn(model: nn.Module) -> nn.Module:
    """In evaluation, with statistics that are not those of the start."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -1, 1)  # type: ignore[arg-type]  # it tracks statistics
            nn.init.uniform_(module.weight, 0.5, 2)
    return model.eval()


def serving(**facts: Any) -> Profile:
    profile = a_rich_profile()
    assert profile.run is not None
    root = replace(a_root(), has_batch_norm=True, convolution_dimensions=(2,))
    return replace(profile, run=replace(profile.run, clock="request", **facts), roots=(root,))


def norms(model: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1)), 0),
        (Residual(), 1),
    ],
)  # fmt: skip
def test_outputs_are_the_same_with_fewer_norms(model: nn.Module, left: int) -> None:
    worn(model)
    with torch.no_grad():
        before = model(IMAGE)
        folded = FoldConvBn().model(model, "on")
        torch.testing.assert_close(folded(IMAGE), before)
    assert folded is model and norms(model) == left


def test_off_leaves_the_model_as_it_is() -> None:
    model = worn(Residual())
    assert FoldConvBn().model(model, "off") is model and norms(model) == 2


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Decides().eval(), "cannot be traced"),
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.BatchNorm2d(3)).eval(), "no batch norm directly"),
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)).train(), "no batch norm directly"),
    ],
)
def test_what_cannot_be_folded_is_refused_with_the_reason(model: nn.Module, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        FoldConvBn().model(model, "on")


def test_it_is_tried_where_norms_follow_convolutions_in_evaluation() -> None:
    assert FoldConvBn().choices(serving()) == ["off", "on"]
    with pytest.raises(Refused, match="training mode"):
        FoldConvBn().choices(serving(requests_in_training_mode=True))
    with pytest.raises(Refused, match="no batch norm"):
        FoldConvBn().choices(replace(serving(), roots=(a_root(),)))
