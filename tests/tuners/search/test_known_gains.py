"""What a search saw gain clearly, alone, needs no second look; what may have been taken over does."""

import pytest

from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.known_gains import KnownGains
from advisor.tuners.space.configuration import Configuration

PRESENT = Configuration({
    "num_workers": 0, "in_memory_cache": "off", "optimizer_implementation": "default", "malloc": "libc",
    "batch_size": 32, "lr_scaling": "none",
})  # fmt: skip
WORKERS = PRESENT.with_({"num_workers": 2})


def a_gain(estimate: float, half_width: float = 0.05) -> Estimate:
    return Estimate(estimate, estimate - half_width, estimate + half_width, 0.9, 1, 1)


def known_of(winner: Configuration, *compared: tuple[Configuration, Configuration, Estimate]) -> set[str]:
    known = KnownGains(KNOBS, PRESENT)
    for incumbent, config, estimate in compared:
        known.note(incumbent, config, estimate)
    return set(known.of(winner))


def test_a_clear_gain_of_a_single_change_is_known() -> None:
    assert known_of(WORKERS, (PRESENT, WORKERS, a_gain(0.7))) == {"num_workers"}


@pytest.mark.parametrize("estimate", [a_gain(0.05), a_gain(0.4, half_width=0.35)])
def test_a_small_or_an_unclear_one_is_not(estimate: Estimate) -> None:
    assert not known_of(WORKERS, (PRESENT, WORKERS, estimate))


def test_of_two_changes_at_once_neither_is_known() -> None:
    both = WORKERS.with_({"malloc": "libc-tuned"})
    assert not known_of(both, (PRESENT, both, a_gain(0.7)))


def test_a_change_that_was_taken_back_is_known_by_what_that_cost() -> None:
    fused = PRESENT.with_({"optimizer_implementation": "fused"})
    both = WORKERS.with_({"optimizer_implementation": "fused"})
    together = (PRESENT, both, a_gain(0.9))
    assert known_of(both, together, (both, WORKERS, a_gain(-0.5))) == {"optimizer_implementation"}
    assert known_of(both, together, (both, fused, a_gain(-0.5))) == {"num_workers"}
    assert not known_of(both, together, (both, WORKERS, a_gain(-0.05)))
    known = KnownGains(KNOBS, PRESENT)
    known.note(both, WORKERS, Estimate(-0.5, -0.6, -0.3, 0.9, 1, 1))
    assert known.seen(both) == {"optimizer_implementation": Estimate(0.5, 0.3, 0.6, 0.9, 1, 1)}


def test_a_learning_rate_that_follows_its_batch_is_no_second_change() -> None:
    larger = PRESENT.with_({"batch_size": 64, "lr_scaling": "linear"})
    assert known_of(larger, (PRESENT, larger, a_gain(0.7))) == {"batch_size"}


@pytest.mark.parametrize(
    ("later", "known"),
    [
        ({"optimizer_implementation": "fused"}, {"num_workers"}),
        ({"in_memory_cache": "on"}, set()),  # spares the same wait
        ({"malloc": "libc-tuned"}, set()),  # nobody knows what of a step it shortens
    ],
)
def test_what_came_later_on_the_same_part_of_a_step_may_have_taken_it_over(
    later: dict[str, Value], known: set[str]
) -> None:
    assert known_of(WORKERS.with_(later), (PRESENT, WORKERS, a_gain(0.7))) == known


def test_values_that_were_followed_one_after_the_other_add_up() -> None:
    more = WORKERS.with_({"num_workers": 4})
    known = KnownGains(KNOBS, PRESENT)
    known.note(WORKERS, more, a_gain(0.3))
    assert not known.of(more)
    known.note(PRESENT, WORKERS, a_gain(0.7))
    found = known.of(more)["num_workers"]
    assert (found.estimate, found.low) == pytest.approx((1.0, 0.9))


def test_what_changes_gave_together_is_told_of_a_winner_that_has_them_all() -> None:
    known, both = KnownGains(KNOBS, PRESENT), WORKERS.with_({"malloc": "libc-tuned"})
    known.note(PRESENT, both, a_gain(0.7))
    known.note(both, both.with_({"batch_size": 64}), a_gain(0.2))
    pair = {frozenset(("num_workers", "malloc")): a_gain(0.7)}
    assert known.joint(both) == known.joint(both.with_({"batch_size": 64})) == pair
    assert known.joint(WORKERS) == {} and known.joint(both.with_({"num_workers": 4})) == {}


@pytest.mark.parametrize(("together", "alone"), [(0.3, set()), (-0.35, {"num_workers", "malloc"})])
def test_what_changes_give_alone_tells_nothing_where_they_need_each_other(
    together: float, alone: set[str]
) -> None:
    known, tuned = KnownGains(KNOBS, PRESENT), PRESENT.with_({"malloc": "libc-tuned"})
    both = WORKERS.with_({"malloc": "libc-tuned"})
    for config, gain in ((WORKERS, -0.3), (tuned, -0.1), (both, together)):
        known.note(PRESENT, config, a_gain(gain))
    assert known.seen(both).keys() == alone
    half = KnownGains(KNOBS, PRESENT)  # the other was never seen alone
    half.note(PRESENT, WORKERS, a_gain(-0.3))
    half.note(PRESENT, both, a_gain(together))
    assert half.seen(both).keys() == alone - {"malloc"}
    assert known.seen(WORKERS).keys() == {"num_workers"}
