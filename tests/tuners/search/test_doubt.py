"""What a noisy look may have hidden is looked at again before the search ends."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from scripted_search import ScriptedSession, a_search

from advisor.tuners.comparing.duel import Duel
from advisor.tuners.knob import Value
from advisor.tuners.search.doubt import doubt, together
from advisor.tuners.search.search import Search
from advisor.tuners.trial.messages import Slot, SlotMeasured


def test_one_pair_of_processes_hides_more_than_two_and_one_process_the_least() -> None:
    assert doubt(1) > 1.3 * doubt(2) and doubt(1) > 0.1
    assert doubt(2) >= doubt(0) > 0


def test_two_looks_count_by_their_pairs_and_one_within_a_process_like_one() -> None:
    assert together((-0.1, 1), (0.2, 2)) == pytest.approx(0.1)
    assert together((-0.1, 0), (0.2, 1)) == pytest.approx(0.05)


def with_first_errors(search: Any, errors: Mapping[Value, float], name: str) -> list[Value]:
    """Have the first duel of these values be off by a log ratio; values in the order of their duels."""
    met: list[Value] = []
    right = search.arena.duel

    def duel(first: Mapping[str, Value], second: Mapping[str, Value], **options: Any) -> Duel:
        value, found = second[name], right(first, second, **options)
        error = errors.get(value, 0.0) if value not in met else 0.0
        met.append(value)
        return Duel("baton", [each + error for each in found.log_ratios], [Slot((0.1,))], [Slot((0.1,))])

    search.arena.duel = duel
    return met


CHOICES: dict[str, list[Value]] = {"malloc": ["libc", "tcmalloc", "jemalloc"]}
FASTER = {"libc": 1.0, "tcmalloc": 1.5, "jemalloc": 1.7}


def test_a_look_at_two_processes_that_was_off_is_made_good_by_the_last_race() -> None:
    search, _, _ = a_search(lambda config: FASTER[str(config["malloc"])], CHOICES)
    met = with_first_errors(search, {"jemalloc": -0.2}, "malloc")
    assert search.run(None)["malloc"] == "jemalloc"
    assert met.count("jemalloc") > 1


def test_what_lost_by_more_than_processes_differ_does_not_meet_the_best_again() -> None:
    search, _, _ = a_search(lambda config: FASTER[str(config["malloc"])], CHOICES)
    met = with_first_errors(search, {"jemalloc": -0.5}, "malloc")
    assert search.run(None)["malloc"] == "tcmalloc"
    assert met.count("jemalloc") == 1


def test_a_change_that_came_in_by_noise_is_taken_out_where_it_costs_beside_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Search, "_refine", lambda self: None)  # which might come to it by chance
    choices: dict[str, list[Value]] = {"mkldnn": ["on", "off"], "placebo": ["off", "on"]}

    def speed(config: Mapping[str, Value]) -> float:
        changed, cure = config["mkldnn"] == "off", config["placebo"] == "on"
        return (1.03 if changed else 1.0) * (1.5 if cure else 1.0) / (1.4 if changed and cure else 1.0)

    search, arena, _ = a_search(speed, choices, priorities={"mkldnn": 0.5})
    assert search.run(None) == {"mkldnn": "on", "placebo": "on"}
    assert arena.measured[0] == {"mkldnn": "off", "placebo": "off"}


def quads(log_ratios: Sequence[float]) -> Any:
    """A way of comparing that gives these log ratios one after the other."""
    left = list(log_ratios)

    def of(sessions: Any, configs: Any, count: int, deadline: float, by_work: bool) -> Any:
        taken = [left.pop(0) for _ in range(count)]
        return taken, ([], [Slot((0.1,))]), (SlotMeasured(), SlotMeasured())

    return of


@pytest.mark.parametrize(("sigma", "looked_at"), [(0.01, 3), (0.15, 12)])
def test_few_quads_that_agree_by_chance_end_no_look_on_a_noisy_machine(sigma: float, looked_at: int) -> None:
    search, arena, kept = a_search(lambda config: 1.0, {"placebo": ["off", "on"]})
    arena.sigma = sigma
    arena.quads = quads([-0.1, -0.101, -0.099, *[0.0] * 9])  # type: ignore[method-assign]  # scripted
    search.run(ScriptedSession())  # type: ignore[arg-type]  # scripted
    estimate = kept.trials[0].against_baseline
    assert estimate is not None and estimate.quads == looked_at
    assert math.isfinite(estimate.low)
