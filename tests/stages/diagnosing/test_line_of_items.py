from advisor.profiles.facts.observed import HotSpot, Location
from advisor.stages.diagnosing.watched import line_of_items

LOOP = Location("train.py", 25, "main")
ITEM = Location("train.py", 15, "__getitem__")


def test_the_loop_that_waits_is_not_where_items_are_made() -> None:
    met = (
        HotSpot("input_wait", LOOP, 0.6),
        HotSpot("input_wait", ITEM, 0.4),
        HotSpot("backward", Location("train.py", 29, "main"), 1.0),
    )
    assert line_of_items(met) == ITEM


def test_where_nothing_else_was_met_the_loop_is_told() -> None:
    met = (HotSpot("input_wait", LOOP, 0.9), HotSpot("forward", Location("train.py", 27, "main"), 0.5))
    assert line_of_items(met) == LOOP
    assert line_of_items(()) is None
