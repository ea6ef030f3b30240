from builders import a_profile

from advisor.tuners.knobs.gradient_as_bucket_view import GradientAsBucketView


def test_it_is_off_by_itself_and_adopted_as_an_argument() -> None:
    knob = GradientAsBucketView()
    assert knob.choices(a_profile()) == ["off", "on"]
    assert knob.present(a_profile()) == "off"
    assert knob.strategies == ("ddp",)
    assert "gradient_as_bucket_view=True" in knob.change("on").snippet
