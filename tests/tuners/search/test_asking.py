"""A search asks and tells Optuna: one trial of its study for each measurement, none for what is known."""

import math
from dataclasses import replace

import optuna
from builders import a_loader, a_profile

from advisor.tuners.knob import Value
from advisor.tuners.search.asking import GP_TRIALS, Asking, Proposal
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

CHOICES: dict[str, list[Value]] = {"num_threads": [1, 2, 3, 4], "amp": ["off", "bf16"]}
SIZE = 8


class Same(optuna.samplers.BaseSampler):
    """Proposes one thing for ever."""

    def infer_relative_search_space(self, study: object, trial: object) -> dict[str, object]:  # type: ignore[override]
        return {}

    def sample_relative(self, study: object, trial: object, search_space: object) -> dict[str, object]:
        return {}

    def sample_independent(
        self, study: object, trial: object, param_name: str, param_distribution: object
    ) -> object:
        return {"num_threads": 2, "amp": "off"}[param_name]


def an_asking(
    study: optuna.Study | None = None, sampler: optuna.samplers.BaseSampler | None = None
) -> Asking:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    present = Configuration({name: values[0] for name, values in CHOICES.items()})
    space = Space(present, present, CHOICES, [], a_profile(loader=a_loader()))
    chosen = sampler or optuna.samplers.RandomSampler(seed=0)
    found = study or optuna.create_study(direction="maximize")
    found.sampler = chosen
    return Asking(found, space)


def everything(config: Configuration) -> bool:
    return True


def test_what_the_sampler_repeats_is_no_trial_of_optunas() -> None:
    asking = an_asking(sampler=Same())
    seen = Configuration({"num_threads": 2, "amp": "off"})
    assert asking.propose(lambda config: config != seen, everything, 6) is None
    assert asking.study.trials == []


def test_without_an_end_by_repeats_each_setting_of_the_space_comes_once_and_then_none() -> None:
    asking, seen = an_asking(sampler=Same()), set[Configuration]()
    found: list[Proposal] = []
    while proposal := asking.propose(lambda config: config not in seen, everything, math.inf):
        seen.add(proposal.config)
        found.append(proposal)
        asking.tell(asking.take(proposal.config, proposal), 0.0)
    assert len(found) == len(seen) == len(asking.study.trials) == SIZE


def test_what_is_not_allowed_is_proposed_neither_by_the_sampler_nor_in_order() -> None:
    asking = an_asking(sampler=Same())
    proposal = asking.propose(everything, lambda config: config["num_threads"] == 3, math.inf)
    assert proposal is not None
    assert (proposal.config["num_threads"], proposal.repeats) == (3, 0)


def test_a_refusal_is_told_as_a_trial_that_was_pruned() -> None:
    asking = an_asking()
    asking.refuse(asking.take(Configuration({"num_threads": 2, "amp": "off"})))
    assert [trial.state.name for trial in asking.study.trials] == ["PRUNED"]


def test_a_resumed_study_goes_on_though_a_setting_is_refused_by_now() -> None:
    first = an_asking()
    first.tell(first.take(Configuration({"num_threads": 4, "amp": "off"})), 0.5)
    left: dict[str, list[Value]] = {**CHOICES, "num_threads": [1, 2, 3]}
    resumed = Asking(first.study, replace(first.space, choices=left))
    resumed.tell(resumed.take(Configuration({"num_threads": 2, "amp": "off"})), 0.1)
    proposal = resumed.propose(everything, everything, math.inf)
    assert proposal is not None and proposal.params["num_threads"] != 4
    assert [trial.value for trial in resumed.study.trials] == [0.5, 0.1]


def test_a_tree_takes_over_where_a_gaussian_process_would_be_slow() -> None:
    asking = an_asking(sampler=optuna.samplers.GPSampler(seed=0))
    assert asking._sampler(0) is asking.study.sampler
    assert isinstance(asking._sampler(1), optuna.samplers.TPESampler)
    asking._told = GP_TRIALS
    assert isinstance(asking._sampler(0), optuna.samplers.TPESampler)
