"""A profile comes back from JSON as it was, whatever it holds."""

import json
from dataclasses import fields, is_dataclass

import pytest
from builders import a_device, a_gpu_profile, a_machine, a_profile, a_rich_profile, a_window, an_op
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.profile_json import VERSION, as_json, from_json

BUILT = {
    "empty": a_profile(),
    "cpu": a_rich_profile(),
    "gpu": a_gpu_profile(),
    "recorded": a_gpu_profile(window=a_window(an_op(shapes=((2, 3), ())), an_op(), device=a_device())),
}


def through_text(profile: Profile) -> Profile:
    return from_json(json.loads(json.dumps(as_json(profile))))


@pytest.mark.parametrize("profile", BUILT.values(), ids=BUILT)
def test_a_built_profile_comes_back(profile: Profile) -> None:
    assert through_text(profile) == profile


@settings(max_examples=20, deadline=None)
@given(st.from_type(Profile))
def test_any_profile_comes_back(profile: Profile) -> None:
    # NaN differs from itself, so the texts are compared.
    back = through_text(profile)
    assert json.dumps(as_json(back)) == json.dumps(as_json(profile))
    assert types(back) == types(profile)


def types(value: object) -> object:
    """The shape of a value: its types all the way down."""
    if is_dataclass(value):
        return type(value), [types(getattr(value, field.name)) for field in fields(value)]
    return (type(value), list(map(types, value))) if isinstance(value, tuple) else type(value)


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "-0.0", "1e-310", "0.1"])
def test_every_number_comes_back(number: str) -> None:
    assert str(through_text(a_profile(watching=float(number))).watching) == number


def test_another_version_is_refused_by_its_number() -> None:
    newer = {**as_json(a_profile()), "version": VERSION + 1}
    with pytest.raises(ValueError, match=f"version {VERSION + 1}; only version {VERSION} can be read"):
        from_json(newer)
    with pytest.raises(ValueError, match="version None"):
        from_json({"profile": {}})


def test_what_is_no_fact_is_refused_by_its_name() -> None:
    values = as_json(a_profile(machine=a_machine(), window=a_window(an_op())))
    values["profile"]["window"]["ops"][0]["colour"] = "blue"
    values["profile"]["weight"] = 3
    with pytest.raises(ValueError, match=f"no facts of a profile of version {VERSION}: colour, weight"):
        from_json(values)
