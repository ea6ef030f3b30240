"""A study that is cut off and resumed: what it measured is answered from its cache, nothing is run twice."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import optuna
import pytest
from builders import a_loader, a_machine, a_profile, an_optimizer
from result_builder import a_ratio, a_recommendation, a_result, a_trial
from scripted_search import ScriptedArena

from advisor.base.settings import MAX_TRIALS, Settings, TargetRequest
from advisor.report.progress import PlainProgress
from advisor.result.document import PlannedRun, ResultData
from advisor.stages.confirming.standing import standing
from advisor.stages.searched import _as_begun
from advisor.stages.study import Study, measured_of
from advisor.stages.trials import TrialLog
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
from advisor.tuners.comparing.looks import Decision
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Refused, Value
from advisor.tuners.search.asking import Asking
from advisor.tuners.search.measured import Measured
from advisor.tuners.search.search import Search
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import Failure, TrialFailed

CHOICES: dict[str, list[Value]] = {
    "optimizer_implementation": ["default", "foreach", "fused", "for-loop"],
    "amp": ["off", "bf16"],
    "num_threads": [1, 2, 3, 4],
    "matmul_precision": ["highest", "high", "medium"],
}
SLOW_S, QUICK_S = 0.5, 0.001  # of a step: the first is worth a Gaussian process


class Killed(BaseException):
    """The tuner is gone at once: nothing is told to anybody."""


def speed(config: Mapping[str, Value]) -> float:
    """Steps per second; one configuration fails by itself."""
    if config["optimizer_implementation"] == "for-loop":
        raise TrialFailed(Failure("user_error", "ValueError: no"))
    weights = {name: 1 + len(name) * values.index(config[name]) for name, values in CHOICES.items()}
    return 1 + math.sin(sum(weights.values())) / 10


@dataclass
class Part:
    """Runs of the tuner on one study; ``tried`` holds the configurations that were launched, by run."""

    folder: Path
    step_s: float = QUICK_S
    trials: int | None = None
    tried: list[list[Configuration]] = field(default_factory=list)

    def run(self, *, survived: float = math.inf) -> Search:
        """A search; it is killed during trial ``survived`` + 1."""
        settings = Settings(
            target=TargetRequest(kind="script", name=str(self.folder / "train.py")),
            storage=f"sqlite:///{self.folder}/studies.db", study="s", resume=bool(self.tried),
            trials=self.trials, budget_s=60.0, seed=7,
        )  # fmt: skip
        profile = a_profile(
            machine=a_machine(cpus_allowed=4), loader=a_loader(), optimizers=(an_optimizer(),)
        )
        present = Configuration({name: values[0] for name, values in CHOICES.items()})
        space = Space(present, present, CHOICES, [], profile)
        self.tried.append([])
        with ExitStack() as stack:
            study = Study.open(settings, stack, print)
            measured = study.join(profile, CHOICES, print)
            log = Noting(
                PlainProgress(StringIO()), lambda: 0.0, math.inf, study.store, study.name, space.present,
                measured=measured,
            )  # fmt: skip
            log.launched, log.left = self.tried[-1], survived
            search = Search(
                cast(Any, ScriptedArena(speed)), space, profile, study.optuna(self.step_s), log, math.inf,
                max_trials=self.trials, measured=measured, next_number=study.next_number(),
            )  # fmt: skip
            with suppress(Killed):  # what a dead process would have left is in the store
                search.run(None)
            return search


@dataclass
class Noting(TrialLog):
    launched: list[Configuration] = field(default_factory=list)
    left: float = math.inf

    def begin(self, trial: Any, score: float) -> None:
        super().begin(trial, score)
        if len(self.launched) == self.left:
            raise Killed
        self.launched.append(trial.config)


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    return Part(tmp_path)


@pytest.mark.parametrize("step_s", [QUICK_S, pytest.param(SLOW_S, marks=pytest.mark.long)], ids=["TPE", "GP"])
def test_what_was_measured_before_an_interrupt_is_not_launched_again(part: Part, step_s: float) -> None:
    part.step_s = step_s
    part.run(survived=5)
    search = part.run()
    first, then = part.tried
    assert len(first) == 5 and then
    again = set(first) & set(then)
    assert all(first.count(each) + then.count(each) == 2 and each in search._nominees for each in again)
    assert set(first) <= set(search._seen)
    assert search.incumbent in {*first, *then}
    third = part.run()  # what a search came to is known; joint proposals go on
    assert not set(part.tried[2]) & {*first, *then} - third._nominees


def test_the_number_of_trials_counts_over_all_parts_less_what_was_cut_off(part: Part) -> None:
    part.trials = 8  # the baseline included
    part.run(survived=3)
    assert part.run().stopped_by == "trials"
    assert len(part.tried[0]) + len(part.tried[1]) == 7
    assert part.run().stopped_by == "trials" and part.tried[2] == []


def test_what_failed_by_itself_is_not_launched_again(part: Part) -> None:
    part.run()
    failed = [each for each in part.tried[0] if "for-loop" in each.values()]
    again = part.run()
    assert failed and not set(failed) & set(part.tried[1])
    assert all(again._seen[each] == -math.inf for each in failed if each in again._seen)


def test_what_optuna_holds_of_a_resumed_study_is_what_was_recorded(part: Part) -> None:
    part.run(survived=4)
    part.run()
    trials = optuna.load_study(study_name="s", storage=f"sqlite:///{part.folder}/studies.db").trials
    assert all(trial.state.is_finished() for trial in trials)
    with Store.open(parse_storage(f"sqlite:///{part.folder}/studies.db"), create=False, warn=print) as store:
        told = sorted(value for _, value in store.finished("s") if value is not None)
    assert sorted(trial.value for trial in trials if trial.value is not None) == pytest.approx(told)


@pytest.mark.parametrize(
    ("module", "point", "is_kept"),
    [
        ("advisor.stages.trials", "begin.before", False),
        ("advisor.stages.trials", "begin.after", False),
        ("advisor.tuners.search.asking", "ask.between", False),
        ("advisor.tuners.search.asking", "ask.after", False),
        ("advisor.stages.trials", "commit.before", False),
        ("advisor.stages.trials", "commit.after", True),
        ("advisor.tuners.search.asking", "tell.before", True),
        ("advisor.tuners.search.asking", "tell.after", True),
    ],
)  # fmt: skip
def test_a_kill_at_any_point_of_a_trial_loses_nothing_that_was_recorded(
    part: Part, module: str, point: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []

    def hit(name: str) -> None:
        passed.append(name)
        if passed.count(point) == 3:
            raise Killed

    part.trials = 6
    with monkeypatch.context() as patched:
        patched.setattr(f"{module}.hit", hit)
        search = part.run()
    kept = part.tried[0][: 3 if is_kept else 2]
    resumed = part.run()
    again = set(kept) & set(part.tried[1])
    assert len(search._seen) <= 3 + 1 and again <= resumed._nominees and set(kept) <= set(resumed._seen)
    assert all(
        len(resumed.measured.scores[each]) == 1 for each in kept if each not in resumed.measured.failures
    )
    optunas = optuna.load_study(study_name="s", storage=f"sqlite:///{part.folder}/studies.db").trials
    assert all(trial.state.is_finished() for trial in optunas)


# The processes of a confirmation, and what it recommended

GAIN = math.log(1.1)
PRESENT = Configuration({"amp": "off"})
CHANGED = Configuration({"amp": "bf16"})
SETTINGS = Settings(target=TargetRequest(kind="script", name="train.py"))
CONFIRMED = [[GAIN], [1.01 * GAIN], [GAIN], [0.99 * GAIN], [GAIN], [GAIN]]
RULE = {"min_gain": SETTINGS.min_gain, "level": SETTINGS.confidence}
SPACE = Space(PRESENT, PRESENT, {"amp": ["off", "bf16"]}, [], a_profile())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = parse_storage(f"sqlite:///{tmp_path / 'studies.db'}")
    with Store.open(url, create=True, warn=print) as opened:
        opened.create_study("train", {"target": "train.py"})
        yield opened


def stored(store: Store, instances: list[list[float]], **trial: Any) -> Measured:
    """The cache after trial 1 has confirmed with these processes."""
    log = TrialLog(PlainProgress(StringIO()), lambda: 0.0, 0.0, store, "train", PRESENT)
    store.begin("train", 1, CHANGED, "confirm")
    for ratios in instances:
        log.keep_instance(1, CHANGED, ratios)
    contribution = Estimate(0.1, 0.05, 0.15, 0.99, 8, 1)
    log.keep_contributions(1, CHANGED, {"amp": contribution})
    store.record("train", a_trial(1, config=dict(CHANGED), stage="confirm", **trial))
    found = measured_of(store.finished("train"), store.comparisons("train"))
    assert found.instances == log.measured.instances
    assert found.contributions == log.measured.contributions == {CHANGED: {"amp": contribution}}
    return found


@pytest.mark.parametrize(
    ("count", "trial", "is_open"),
    [
        (3, {}, True),
        (3, {"state": "failed", "cause": "killed"}, True),
        (3, {"state": "failed", "cause": "non_finite"}, False),
        (6, {}, False),
        (6, {"state": "failed", "cause": "killed"}, True),  # it had not been said yet
    ],
)
def test_a_confirmation_is_open_until_it_is_decided_or_fails_by_itself(
    store: Store, count: int, trial: dict[str, Any], is_open: bool
) -> None:
    measured = stored(store, CONFIRMED[:count], **trial)
    assert measured.open_confirmations(**RULE) == [CHANGED] * is_open


def test_the_confirmation_that_was_begun_last_goes_on_first() -> None:
    measured, other = Measured(), Configuration({"amp": "fp16"})
    for config in (CHANGED, other, CHANGED):
        measured.add_instance(config, [GAIN])
    assert measured.open_confirmations(**RULE) == [CHANGED, other]
    assert measured.instances[CHANGED] == [[GAIN], [GAIN]]


def recommending(verdict: str, config: Mapping[str, Value]) -> ResultData:
    found = a_recommendation(verdict=verdict, config=dict(config), speedup=a_ratio(1.1, 1.09, 1.11))
    return a_result(recommendation=found, planned=PlannedRun(changed_seconds=None, seconds=7.0))


def decision(gain: float) -> Decision:
    return Decision("confirmed", Estimate(gain, gain - 0.01, gain + 0.01, 0.99, 6, 6))


def test_a_confirmed_recommendation_stands_unless_a_better_one_is_confirmed() -> None:
    measured = Measured(instances={CHANGED: CONFIRMED})
    before = recommending("change", CHANGED)
    fruitless, other = recommending("keep", PRESENT), recommending("change", {"amp": "fp16"})

    def kept(now: ResultData, found: Decision | None, settings: Settings = SETTINGS) -> ResultData:
        return standing(now, before, found, measured, SPACE, settings)

    for now, found in ((fruitless, None), (fruitless, decision(0.5)), (other, decision(0.5 * GAIN))):
        assert kept(now, found).recommendation == before.recommendation
    assert kept(other, decision(2 * GAIN)) is other
    assert kept(fruitless, None, replace(SETTINGS, min_gain=0.5)) is fruitless  # no longer enough
    assert standing(fruitless, None, None, measured, SPACE, SETTINGS) is fruitless


def test_a_resumed_study_keeps_its_choices_less_what_is_refused_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(value: Value, profile: object) -> None:
        if value == 4096:
            raise Refused("more than there are")

    monkeypatch.setattr("advisor.stages.searched.KNOBS", {"num_threads": SimpleNamespace(check=check)})
    profile = a_profile(machine=a_machine(cpus_allowed=4), loader=a_loader())
    own = Configuration({"num_threads": 1, "amp": "off"})
    now = Space(own, own, {"amp": ["off", "bf16"], "num_threads": [1, 2]}, [], profile)
    again = _as_begun(now, {"num_threads": [1, 4, 4096], "gone": ["a", "b"]})
    assert again.choices == {"num_threads": [1, 4]} and again.present == {"num_threads": 1}
    told = {(each.knob, each.value) for each in again.not_tried}
    assert told == {("num_threads", 4096), ("gone", None), ("amp", None)}


@pytest.mark.long
def test_proposing_and_storing_stay_quick_with_as_many_trials_as_are_supported(store: Store) -> None:
    """Ten times as many trials take at most forty times as long."""
    assert MAX_TRIALS == 2000
    choices: dict[str, list[Value]] = {f"knob{index}": list(range(8)) for index in range(4)}
    present = Configuration({name: values[0] for name, values in choices.items()})
    space = Space(present, present, choices, [], a_profile())

    def seconds(count: int) -> float:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
        known: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(of) for name, of in choices.items()
        }
        study.add_trials(
            optuna.trial.create_trial(
                params={name: number // 8**place % 8 for place, name in enumerate(choices)},
                distributions=known, value=float(number % 97),
            )
            for number in range(count)
        )  # fmt: skip
        asking = Asking(study, space)
        began = time.process_time()
        for _ in range(3):
            proposal = asking.propose(lambda config: True, lambda config: True, math.inf)
            assert proposal is not None
            number = asking.take(proposal.config, proposal)
            store.begin("train", count + number, proposal.config)
            trial = a_trial(count + number, config=dict(proposal.config))
            store.record("train", trial, asked=number, value=0.1)
            asking.tell(number, 0.1)
        return time.process_time() - began

    seconds(20)
    assert seconds(MAX_TRIALS) < 40 * max(0.01, seconds(MAX_TRIALS // 10))
