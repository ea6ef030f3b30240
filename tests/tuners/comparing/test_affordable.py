"""What a budget can tell is known before it is spent."""

import math

import pytest

from advisor.tuners.comparing.affordable import (
    MOST,
    fewest_pairs,
    pairs_within,
    seconds_to_tell,
    smallest_gain,
)
from advisor.tuners.comparing.looks import LOOKS, SHARES, look
from advisor.tuners.comparing.measure import expected_spread


def test_more_pairs_tell_smaller_gains() -> None:
    gains = [smallest_gain(pairs, 0.02, 3) for pairs in LOOKS]
    known = [gain for gain in gains if gain is not None]
    assert known == sorted(known, reverse=True) and len(known) == len(LOOKS)
    assert known[LOOKS.index(2)] > known[LOOKS.index(4)] > known[LOOKS.index(8)] > known[LOOKS.index(12)]


def test_pairs_after_the_last_look_that_is_reached_tell_no_more() -> None:
    assert smallest_gain(11, 0.02, 3) == smallest_gain(8, 0.02, 3)


@pytest.mark.parametrize("how", ["", "live", "baton"])
@pytest.mark.parametrize("nodes", [1, 2, 8])
@pytest.mark.parametrize("pairs", [2, 6, 12])
def test_a_confirmation_confirms_what_was_said_and_no_much_smaller_gain(
    how: str, nodes: int, pairs: int
) -> None:
    """Pairs that spread as is expected of them."""
    said = smallest_gain(pairs, 0.02, 3, how, nodes)
    assert said is not None
    within = (1.25 * 0.02) ** 2 / 3
    variance, _ = expected_spread(within, 3, how)
    inside = math.sqrt(3 * within)  # standard deviation of quads

    def confirmed(gain: float) -> bool:
        signs = [1 if pair % 2 else -1 for pair in range(pairs)]
        instances = [
            [math.log1p(gain) + sign * math.sqrt(variance * (pairs - 1) / pairs) + each for each in quads]
            for sign in signs for quads in [(-inside, 0.0, inside)]
        ]  # fmt: skip
        share = SHARES[LOOKS.index(pairs)]
        names = [f"n{pair // 2 % nodes}" for pair in range(pairs)] if nodes > 1 else []
        return look(instances, 0.0, 0.99, pairs == LOOKS[-1], share, how, names).verdict == "confirmed"

    assert confirmed(said) and not confirmed(0.5 * said)


def test_two_pairs_tell_thirty_percent_on_a_quiet_machine_and_six_five() -> None:
    two, six = smallest_gain(2, 0.02, 3), smallest_gain(6, 0.02, 3)
    assert two is not None and two < 0.3
    assert six is not None and 0.03 < six < 0.12


def test_on_several_nodes_only_larger_gains_are_told_for_each_may_like_a_change_by_itself() -> None:
    alone, two, eight = (smallest_gain(MOST, 0.02, 3, "live", nodes) for nodes in (1, 2, 8))
    assert alone is not None and two is not None and eight is not None
    assert two > 1.3 * eight > 1.3 * 1.3 * alone
    assert fewest_pairs(0.1, 0.002, 12, "live", 2) is None, "of two nodes no number of pairs tells it"


def test_one_pair_tells_nothing() -> None:
    assert smallest_gain(1, 0.0, 12) is None


@pytest.mark.parametrize(("seconds", "pairs"), [(-5.0, 0), (39.0, 1), (100.0, 5), (1e6, MOST)])
def test_pairs_are_counted_whole_and_bounded(seconds: float, pairs: int) -> None:
    assert pairs_within(seconds, 20.0) == pairs


def test_the_time_that_a_gain_needs_is_that_of_the_pairs_that_tell_it() -> None:
    seconds = seconds_to_tell(0.2, 40.0, 0.02, 3)
    assert seconds is not None
    pairs = round(seconds / 40.0)
    assert pairs in LOOKS
    gain, fewer = smallest_gain(pairs, 0.02, 3), smallest_gain(pairs - 1, 0.02, 3)
    assert gain is not None and gain <= 0.2
    assert fewer is None or fewer > 0.2


def test_no_number_of_pairs_tells_it_in_too_much_noise() -> None:
    assert seconds_to_tell(0.05, 40.0, 2.0, 1) is None
