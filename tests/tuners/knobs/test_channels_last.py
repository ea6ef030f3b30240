from typing import Any

import pytest
import torch
from builders import a_profile, a_root, a_run
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.channels_last import CAVEAT, ChannelsLast
from advisor.tuners.knobs.execution import Execution


def switched_on() -> Run:
    run = a_run(channels_last=ChannelsLast())
    run.configure({"channels_last": "on"})
    return run


def in_layout(layer: nn.Module, layout: torch.memory_format) -> bool:
    return next(layer.parameters()).is_contiguous(memory_format=layout)


def test_weights_and_inputs_are_converted_and_the_numbers_stay() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 2))
    images = torch.randn(4, 3, 8, 8)
    expected = model(images)
    run = switched_on()
    assert run.model(model) is model
    assert in_layout(model[0], torch.channels_last)
    torch.testing.assert_close(run.call(model.forward, model)(images), expected, rtol=1e-4, atol=1e-5)
    assert run.unanswered() == []


def test_inputs_reach_the_forward_in_the_new_layout() -> None:
    seen: list[torch.Tensor] = []
    convert = switched_on().call(
        lambda *inputs, **named: seen.extend([*inputs, *named.values()]), nn.Identity()
    )
    convert(torch.zeros(2, 3, 4, 4), mask=torch.zeros(2, 3, 4, 4, 4), labels=torch.zeros(2, dtype=torch.long))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    assert seen[1].is_contiguous(memory_format=torch.channels_last_3d)
    assert seen[2].shape == (2,)


def test_a_list_of_images_is_converted_too() -> None:
    seen: list[Any] = []
    switched_on().call(seen.append, nn.Identity())([torch.zeros(2, 3, 4, 4)])
    assert seen[0][0].is_contiguous(memory_format=torch.channels_last)


def test_volumes_take_the_three_dimensional_form_beside_images() -> None:
    model = nn.ModuleList([nn.Conv3d(3, 4, 3), nn.Conv2d(3, 4, 3), nn.Conv1d(3, 4, 3)])
    switched_on().model(model)
    assert in_layout(model[0], torch.channels_last_3d)
    assert in_layout(model[1], torch.channels_last)
    assert in_layout(model[2], torch.contiguous_format)


def test_parameters_stay_the_objects_that_the_optimizer_holds() -> None:
    model = nn.Conv2d(3, 4, 3)
    before = model.weight
    switched_on().model(model)
    assert model.weight is before


def test_it_wraps_around_what_execution_makes() -> None:
    assert ChannelsLast.layer > Execution.layer


def a_conv_profile(**facts: Any) -> Profile:
    return a_profile(roots=(a_root(dense_convolutions=2, **facts),))


def test_it_is_offered_where_images_meet_dense_convolutions() -> None:
    assert ChannelsLast().choices(a_conv_profile(takes_4d_input=True)) == ["off", "on"]
    assert ChannelsLast().choices(a_conv_profile(takes_4d_input=None)) == ["off", "on"]
    volumes = a_conv_profile(takes_4d_input=False, convolution_dimensions=(3,))
    assert ChannelsLast().choices(volumes) == ["off", "on"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(roots=(a_root(),)), "no dense convolution"),
        (a_profile(), "no dense convolution"),
        (a_conv_profile(convolution_dimensions=(1,)), "no dense convolution"),
        (a_conv_profile(takes_4d_input=False, convolution_dimensions=(2,)), "takes no images"),
    ],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        ChannelsLast().choices(profile)


def test_a_model_of_mostly_grouped_convolutions_is_adopted_with_a_warning() -> None:
    knob = ChannelsLast()
    knob.present(a_conv_profile(grouped_convolutions=3))
    assert knob.change("on").snippet.endswith(CAVEAT)
    assert CAVEAT not in knob.change("off").snippet
    knob.present(a_conv_profile(grouped_convolutions=2))
    assert CAVEAT not in knob.change("on").snippet
