import pytest
from builders import a_profile

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.static_graph import StaticGraph


def test_it_is_off_by_itself_and_adopted_as_an_argument() -> None:
    knob = StaticGraph()
    assert knob.choices(a_profile()) == ["off", "on"]
    assert knob.present(a_profile()) == "off"
    assert "static_graph=True" in knob.change("on").snippet


def test_the_search_for_unused_parameters_is_pointless_beside_it() -> None:
    knob = StaticGraph()
    for other in ({}, {"find_unused_parameters": "auto"}):
        knob.prepare({"static_graph": "on", **other}, {})
    knob.prepare({"static_graph": "off", "find_unused_parameters": "on"}, {})
    with pytest.raises(Refused, match="finds unused parameters itself"):
        knob.prepare({"static_graph": "on", "find_unused_parameters": "on"}, {})
