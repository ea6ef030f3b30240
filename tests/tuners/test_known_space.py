"""A sampler that is told what it may sample proposes what it would have found out by itself."""

from collections.abc import Iterator
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.search_space import IntersectionSearchSpace

from advisor.tuners.known_space import knowing
from advisor.tuners.sampling import GP_TRIALS, Kind, sampler_for

SPACE: dict[str, BaseDistribution] = {
    "workers": CategoricalDistribution((0, 1, 2, 4)),
    "alone": CategoricalDistribution(("only",)),
    "format": CategoricalDistribution(("a", "b", "c")),
}
TRIALS = 25  # more than TPE draws at random


def proposals(kind: Kind, told: bool) -> Iterator[dict[str, Any]]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    for number in range(TRIALS):
        sampler = sampler_for(kind, 7, number)
        study.sampler = knowing(sampler, SPACE) if told else sampler
        trial = study.ask(SPACE)
        yield dict(trial.params)
        study.tell(trial, trial.params["workers"] - (trial.params["format"] == "b"))


@pytest.mark.parametrize("kind", ["tpe", "gp"])
def test_it_proposes_the_same(kind: Kind) -> None:
    assert list(proposals(kind, told=True)) == list(proposals(kind, told=False))


def test_it_does_not_look_through_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("all trials were looked through")

    monkeypatch.setattr(IntersectionSearchSpace, "calculate", refuse)
    assert len(list(proposals("tpe", told=True))) == TRIALS


def test_a_gaussian_process_gives_way_to_a_tree_when_there_are_many_trials() -> None:
    assert isinstance(sampler_for("gp", 0, GP_TRIALS - 1), optuna.samplers.GPSampler)
    assert isinstance(sampler_for("gp", 0, GP_TRIALS), optuna.samplers.TPESampler)
    assert isinstance(sampler_for("tpe", 0, 0), optuna.samplers.TPESampler)
