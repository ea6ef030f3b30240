import pytest
from builders import a_profile, a_rich_profile

from advisor.profiles.facts.profile import RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.no_sync import NoSync


def test_programs_that_accumulate_gradients_are_offered_both_ways() -> None:
    knob, profile = NoSync(), a_rich_profile(run=RunFacts(backwards_per_step=4.0))
    assert knob.choices(profile) == ["on", "off"]
    assert knob.present(profile) == "on"


@pytest.mark.parametrize("profile", [a_profile(), a_rich_profile()])
def test_one_backward_per_update_leaves_nothing_to_try(profile: object) -> None:
    with pytest.raises(Refused, match="one backward"):
        NoSync().choices(profile)  # type: ignore[arg-type]


def test_the_snippets_differ_in_who_is_under_no_sync() -> None:
    assert "else model.no_sync():" in NoSync().change("on").snippet
    assert "outside of model.no_sync()" in NoSync().change("off").snippet
