"""Pairs of several nodes: a wider interval, and a still wider one where nodes clearly differ."""

import math
import random
from collections.abc import Sequence

import pytest

from advisor.tuners.comparing.looks import LOOKS, confirm, decided
from advisor.tuners.comparing.measure import moderated
from advisor.tuners.comparing.over_nodes import NODE_SPREAD
from advisor.tuners.comparing.pair_places import Where, nodes_of, within_wave
from advisor.tuners.search.measured import Measured
from advisor.tuners.space.configuration import Configuration

NODES = ["a", "a", "b", "b", "c", "c", "d", "d"]


def pairs(
    source: random.Random, effects: dict[str, float], gain: float = 0.0, names: Sequence[str] = NODES
) -> list[list[float]]:
    """Three quads of each pair: a gain, what its node adds, and noise."""
    found = []
    for node in names:
        centre = gain + effects.get(node, 0.0) + source.gauss(0.0, 0.003)
        found.append([centre + source.gauss(0.0, 0.005) for _ in range(3)])
    return found


def test_where_nodes_agree_the_interval_holds_what_like_nodes_differ_by() -> None:
    found = pairs(random.Random(1), {}, 0.1)
    plain, of_four = moderated(found, 0.99, "live"), moderated(found, 0.99, "live", NODES)
    of_two = moderated(found, 0.99, "live", ["a"] * 4 + ["b"] * 4)
    assert plain.estimate == pytest.approx(of_four.estimate) == pytest.approx(of_two.estimate)
    assert of_four.high - of_four.estimate > 2.5 * NODE_SPREAD / math.sqrt(4)
    assert of_two.high - of_two.estimate > 2.5 * NODE_SPREAD / math.sqrt(2) > plain.high - plain.estimate


def test_where_nodes_differ_the_interval_is_wider_and_about_the_mean_of_nodes() -> None:
    found = pairs(random.Random(1), {"a": 0.08, "b": -0.08}, 0.1)
    plain, apart = moderated(found, 0.99, "live"), moderated(found, 0.99, "live", NODES)
    assert apart.estimate == pytest.approx(0.1, abs=0.01)
    assert apart.high - apart.low > 1.3 * (plain.high - plain.low)
    uneven = moderated([[0.0]] * 2 + [[0.1]] * 6, 0.99, "", ["a"] * 2 + ["b"] * 6)
    assert uneven.estimate == pytest.approx(0.05), "each node counts once, however many pairs it has"


@pytest.mark.parametrize("count", [2, 4])
def test_nodes_that_differ_by_three_percent_confirm_nothing_that_is_not_there(count: int) -> None:
    source, confirmed = random.Random(7), 0
    names = [f"n{index % count}" for index in range(8)]
    for _ in range(500):
        effects = {node: source.gauss(0.0, NODE_SPREAD) for node in names}
        found, where = pairs(source, effects, names=names), [Where(node, 8) for node in names]
        decision = decided(found, min_gain=0.02, level=0.99, how="live", where=where)
        confirmed += decision is not None and decision.verdict == "confirmed"
    assert confirmed <= 5
    alone = 0
    for _ in range(200):
        one = decided([[source.gauss(0.0, NODE_SPREAD) + 0.02] * 3] * 8, min_gain=0.02, level=0.99)
        alone += one is not None and one.verdict == "confirmed"
    assert alone > 10, "what one node says of itself alone would be taken for a gain"


def test_a_gain_is_more_than_two_nodes_may_add_to_one_of_many_settings() -> None:
    names, source = ["a", "b"] * 2, random.Random(3)
    where = [Where(node, 4) for node in names]
    by_chance = 3.77 * NODE_SPREAD / math.sqrt(2)  # one of 36 settings has as much in every 340th search
    for gain, verdict in ((by_chance, None), (1.5 * by_chance, "confirmed")):
        found = pairs(source, {}, gain, names)
        decision = decided(found, min_gain=0.02, level=0.99, how="live", where=where)
        assert (decision and decision.verdict) == verdict


def test_no_look_is_taken_within_a_wave() -> None:
    where: list[Where] = []
    asked: list[int] = []

    def instance(index: int) -> list[float]:
        asked.append(index)
        where.append(Where("ab"[index // 2], 4))
        return [0.5, 0.5, 0.5]

    decision, found = confirm(instance, min_gain=0.02, level=0.99, where=where)
    assert decision.verdict == "confirmed" and len(found) == 4
    assert decided(found, min_gain=0.02, level=0.99, where=where) == decision
    assert decided(found[:2], min_gain=0.02, level=0.99, where=where[:2]) is None
    assert all(within_wave(where, stop) is (stop < 4) for stop in LOOKS if stop <= 4)


def test_pairs_of_which_no_node_is_known_lie_on_this_one() -> None:
    assert nodes_of([Where("a", 2)], 2) == ["a", ""] and nodes_of([Where("a", 2)] * 3, 2) == ["a", "a"]
    assert nodes_of([], 2) == nodes_of([Where()] * 2, 2) == [], "there was no other"


def test_pairs_of_one_of_several_nodes_say_little_about_the_others() -> None:
    found = pairs(random.Random(1), {}, 0.06)[:2]
    alone = decided(found, min_gain=0.02, level=0.99, how="live")
    one_of_two = decided(found, min_gain=0.02, level=0.99, how="live", where=[Where("b", 2)] * 2)
    assert alone is not None and alone.verdict == "confirmed"
    assert one_of_two is None or one_of_two.verdict != "confirmed"
    large = decided([[0.3] * 3] * 2, min_gain=0.02, level=0.99, how="live", where=[Where("b", 2)] * 2)
    assert large is not None and large.verdict == "confirmed"


def test_what_a_study_knows_of_pairs_says_where_they_were_measured() -> None:
    config, measured = Configuration({"a": 1}), Measured()
    measured.add_instance(config, [0.5, 0.5, 0.5])
    measured.add_instance(config, [0.5, 0.5, 0.5], Where("b", 4))
    assert measured.where[config] == [Where(), Where("b", 4)]
    assert measured.confirmed(config, min_gain=0.02, level=0.99) is None, "its wave is not through"
    for _ in range(2):
        measured.add_instance(config, [0.5, 0.5, 0.5], Where("b", 4))
    assert measured.confirmed(config, min_gain=0.02, level=0.99) is not None
    alone = Measured()
    for _ in range(2):
        alone.add_instance(config, [0.5, 0.5, 0.5])
    assert not alone.where and alone.confirmed(config, min_gain=0.02, level=0.99) is not None
