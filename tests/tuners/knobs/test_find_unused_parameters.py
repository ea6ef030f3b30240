from builders import a_profile

from advisor.tuners.knobs.find_unused_parameters import FindUnusedParameters


def test_searching_in_every_step_is_tried_only_when_named() -> None:
    knob = FindUnusedParameters()
    assert knob.named_only
    assert knob.choices(a_profile()) == ["auto", "on"]
    assert knob.present(a_profile()) == "auto"
    assert "find_unused_parameters=True)" in knob.change("on").snippet
    assert knob.change("auto").snippet.startswith("DistributedDataParallel(model)")
