"""What a sampler learns from is bounded, and what it proposes follows from what was told alone."""

import math
from itertools import islice
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

from advisor.tuners import learnt
from advisor.tuners.learnt import BEST, LATEST, MOST, Learnt
from advisor.tuners.sampling import sampler_for

DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "workers": CategoricalDistribution(tuple(range(400))),
    "format": CategoricalDistribution(("a", "b", "c")),
}


def told(count: int, score: Any = lambda place: float(place % 7)) -> Learnt:
    made = Learnt(DISTRIBUTIONS)
    for place in range(count):
        made.tell({"workers": place % 400, "format": "abc"[place % 3]}, score(place))
    return made


def first(made: Learnt, count: int, number: int = 0) -> list[dict[str, Any]]:
    sampler = sampler_for("tpe", 7, number)
    proposals = made.proposals(sampler, sampler)
    found = list(islice(proposals, count))
    proposals.close()
    return found


class Looking(optuna.samplers.RandomSampler):
    """Notes which trials it is shown."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.shown: list[tuple[int, str, float | None]] = []
        self.running = 0

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        found = study.get_trials(deepcopy=False, states=states)
        self.running = len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
        self.shown = [(each.params["workers"], each.state.name, each.value) for each in found]
        return {}


def shown(made: Learnt) -> list[tuple[int, str, float | None]]:
    sampler = Looking()
    proposals = made.proposals(sampler, sampler)
    next(proposals)
    proposals.close()
    return sampler.shown


def test_every_trial_is_shown_in_order_while_there_are_few() -> None:
    found = shown(told(MOST))
    assert found == [(place, "COMPLETE", float(place % 7)) for place in range(MOST)]


def test_of_many_the_best_and_the_latest_are_shown_in_order() -> None:
    found = [place for place, _, _ in shown(told(MOST + 1, lambda place: float(-place)))]
    assert found == [*range(BEST), *range(MOST + 1 - LATEST, MOST + 1)]


def test_a_trial_without_a_score_is_shown_as_pruned_and_is_never_among_the_best() -> None:
    made = told(MOST + 1, lambda place: math.nan if place < 10 else -math.inf if place < 20 else 1.0)
    assert (0, "PRUNED", None) in shown(told(3, lambda place: -math.inf))
    assert min(place for place, _, _ in shown(made)) == 20


def test_no_more_is_kept_however_many_are_told() -> None:
    sizes = {len(shown(told(count))) for count in (5 * MOST, 10 * MOST + 3)}
    assert max(sizes) <= MOST


def test_proposals_follow_from_what_was_told_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt, "DRAWS", 5)
    used, new = told(40), told(40)
    for number in range(4):  # each time more draws than one study in memory holds
        first(used, 8, number)
    assert first(used, 3, 9) == first(new, 3, 9)


def test_while_a_proposal_is_not_used_it_counts_as_running_and_then_no_more() -> None:
    made, sampler = told(3), Looking()
    for _ in range(2):
        proposals = made.proposals(sampler, sampler)
        running = [next(proposals) and sampler.running for _ in range(3)]
        proposals.close()
        assert running == [1, 2, 3]
