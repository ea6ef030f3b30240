"""A search asks and tells Optuna: one trial of its study for each measurement, none for what is known."""

import math
from pathlib import Path

import optuna
from builders import a_loader, a_profile

from advisor.database import Database
from advisor.opening import open_database
from advisor.optuna_tables import open_study
from advisor.storage_url import parse_storage
from advisor.tuners.asking import REPEATS, Asking, Config, Proposal
from advisor.tuners.knob import Value
from advisor.tuners.space import Space

CHOICES: dict[str, list[Value]] = {"num_threads": [1, 2, 3, 4], "amp": ["off", "bf16"]}
SIZE = 8


class Same(optuna.samplers.BaseSampler):
    """Proposes one thing for ever."""

    def infer_relative_search_space(self, study: object, trial: object) -> dict[str, object]:  # type: ignore[override]
        return {}

    def sample_relative(self, study: object, trial: object, search_space: object) -> dict[str, object]:
        return {"num_threads": 2, "amp": "off"}

    def sample_independent(self, *_: object) -> object:
        raise AssertionError("nothing is left to sample")


def an_asking(
    study: optuna.Study | None = None, sampler: optuna.samplers.BaseSampler | None = None
) -> Asking:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    present = {name: values[0] for name, values in CHOICES.items()}
    space = Space(present, present, CHOICES, [], a_profile(loader=a_loader()))
    chosen = sampler or optuna.samplers.RandomSampler(seed=0)
    found = study or optuna.create_study(direction="maximize")
    return Asking(found, space, lambda number: chosen)


def everything(config: Config) -> bool:
    return True


def test_what_the_sampler_repeats_is_no_trial_of_optunas() -> None:
    asking = an_asking(sampler=Same())
    seen = asking.space.key({"num_threads": 2, "amp": "off"})
    assert asking.propose(0, lambda config: asking.space.key(config) != seen, everything, 6) is None
    assert asking.study.trials == []


def test_without_an_end_by_repeats_each_setting_of_the_space_comes_once_and_then_none() -> None:
    asking, seen = an_asking(sampler=Same()), set[str]()
    found: list[Proposal] = []
    while proposal := asking.propose(
        0, lambda config: asking.space.key(config) not in seen, everything, math.inf
    ):
        seen.add(asking.space.key(proposal.config))
        found.append(proposal)
        asking.tell(asking.take(proposal.config, proposal), 0.0)
    assert len(found) == len(seen) == len(asking.study.trials) == SIZE


def test_what_is_not_allowed_is_proposed_neither_by_the_sampler_nor_in_order() -> None:
    asking = an_asking(sampler=Same())
    proposal = asking.propose(0, everything, lambda config: config["num_threads"] == 3, math.inf)
    assert proposal is not None
    assert (proposal.config["num_threads"], proposal.repeats) == (3, 0)


def test_a_resumed_study_is_told_how_often_the_sampler_repeated_itself() -> None:
    asking = an_asking()
    proposal = Proposal({"num_threads": 2, "amp": "off"}, {"num_threads": 2, "amp": "off"}, 4)
    asking.tell(asking.take(proposal.config, proposal), 0.5)
    asking.tell(asking.take({"num_threads": 3, "amp": "off"}), 0.1)
    assert asking.study.trials[0].user_attrs == {REPEATS: 4}
    assert list(an_asking(asking.study).earlier((), ())) == [proposal]


def test_a_refusal_is_told_as_one_once() -> None:
    asking = an_asking()
    config: Config = {"num_threads": 2, "amp": "off"}
    for _ in range(2):
        asking.refuse(asking.take(config))
    resumed = an_asking(asking.study)
    resumed.refuse(resumed.take(config))
    assert [trial.state.name for trial in asking.study.trials] == ["PRUNED", "FAIL", "FAIL"]


def test_optuna_keeps_no_trial_of_a_database_in_memory(tmp_path: Path) -> None:
    asking = an_asking(open_study(a_database(tmp_path), "s", None, "maximize", cached=False))
    for _ in range(3):
        asking.tell(asking.take({"num_threads": 2, "amp": "off"}), 0.5)
    assert [trial.value for trial in asking.study.trials] == [0.5] * 3
    first, again = (asking.study.get_trials(deepcopy=False)[0] for _ in range(2))
    assert first is not again


def a_database(folder: Path) -> Database:
    return open_database(parse_storage(f"sqlite:///{folder}/studies.db"), create=True, warn=print)
