"""Which knobs are for which unit."""

from dataclasses import replace

import pytest
from builders import a_rich_profile

from advisor.base.errors import UsageError
from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.space import build_space


def serving() -> Profile:
    profile = a_rich_profile()
    assert profile.run is not None
    return replace(profile, run=replace(profile.run, clock="request"), optimizers=())


def test_a_space_for_requests_holds_what_acts_on_them() -> None:
    space = build_space(KNOBS, serving())
    assert {"amp", "execution"} <= set(space.choices)
    assert all(Unit.REQUEST in KNOBS[name].units for name in [*space.choices, *space.own])


def test_a_space_for_steps_holds_nothing_that_acts_on_requests_alone() -> None:
    space = build_space(KNOBS, a_rich_profile())
    assert all(Unit.STEP in KNOBS[name].units for name in space.choices)


def test_what_acts_on_training_is_told_when_it_is_named_and_refused_when_it_is_fixed() -> None:
    space = build_space(KNOBS, serving(), named={"set_to_none": None, "amp": None})
    assert [each.knob for each in space.not_tried] == ["set_to_none"] and list(space.choices) == ["amp"]
    with pytest.raises(UsageError, match="requests are answered here"):
        build_space(KNOBS, serving(), fixed={"set_to_none": "off"})
