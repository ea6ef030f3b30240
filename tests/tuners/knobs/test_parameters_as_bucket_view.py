import pytest
from builders import a_profile, a_run

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.knobs.parameters_as_bucket_view import ParametersAsBucketView


def test_messages_of_their_own_come_first() -> None:
    knob = ParametersAsBucketView()
    assert knob.choices(a_profile()) == ["off", "on"]
    assert knob.present(a_profile()) == "off"
    assert knob.parse("on") == "on"


def test_it_acts_under_zero_only_and_changes_no_number() -> None:
    assert ParametersAsBucketView.strategies == ("zero",)
    assert ParametersAsBucketView.semantics is Semantics.EXACT


@pytest.mark.parametrize(("layout", "refused"), [("on", True), ("off", False)])
def test_flat_buffers_have_no_memory_format(layout: str, refused: bool) -> None:
    run = a_run({"channels_last": "off"}, parameters_as_bucket_view=ParametersAsBucketView())
    run.configure({"parameters_as_bucket_view": "on", "channels_last": layout})
    assert ("parameters_as_bucket_view" in run.refused) is refused


def test_what_the_user_writes() -> None:
    change = Change("ZeroRedundancyOptimizer(..., parameters_as_bucket_view=True)")
    assert ParametersAsBucketView().change("on") == change
