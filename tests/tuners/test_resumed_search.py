"""A study that is cut off anywhere and resumed tries what one would have tried that never was."""

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import optuna
import pytest
from builders import a_loader, a_machine, a_profile, an_optimizer
from test_search import ScriptedArena

from advisor.keeping import Keeping
from advisor.progress import PlainProgress
from advisor.settings import Settings, TargetRequest
from advisor.study import Study
from advisor.tuners import learnt
from advisor.tuners.failures import Failure, TrialFailed
from advisor.tuners.knob import Value
from advisor.tuners.search import Search
from advisor.tuners.space import Space

CHOICES: dict[str, list[Value]] = {
    "optimizer_implementation": ["default", "foreach", "fused", "for-loop"],
    "amp": ["off", "bf16"],
    "num_threads": [1, 2, 3, 4],
    "matmul_precision": ["highest", "high", "medium"],
    "gc_freeze": ["off", "freeze", "manual"],
}
SLOW_S, QUICK_S = 0.5, 0.001  # of a step: the first is worth a Gaussian process
BUDGET_S = 60.0


class Killed(BaseException):
    """The tuner is gone at once: nothing is told to anybody."""


def speed(config: Mapping[str, Value]) -> float:
    """Steps per second; there is a best pair that no single change shows, and a configuration that fails."""
    if config["optimizer_implementation"] == "for-loop":
        raise TrialFailed(Failure("user_error", "ValueError: no"))
    weights = {name: 1 + len(name) * values.index(config[name]) for name, values in CHOICES.items()}
    bumps = 1.3 if config["amp"] == "bf16" and config["gc_freeze"] == "manual" else 1.0
    return bumps * (1 + math.sin(sum(weights.values())) / 10)


@dataclass
class Part:
    """One run of the tuner on a study: its search, up to the trial that it does not survive."""

    folder: Path
    step_s: float
    trials: int | None = None
    tried: list[Any] = field(default_factory=list)

    def run(self, *, resume: bool = False, survived: float = math.inf) -> dict[str, Value] | None:
        """The configuration that is nominated; ``None`` when it was killed during trial ``survived`` + 1."""
        settings = Settings(
            target=TargetRequest(kind="script", name=str(self.folder / "train.py")),
            storage=f"sqlite:///{self.folder}/studies.db", study="s", resume=resume, trials=self.trials,
            budget_s=BUDGET_S, seed=7,
        )  # fmt: skip
        profile = a_profile(
            machine=a_machine(cpus_allowed=4), loader=a_loader(), optimizers=(an_optimizer(),)
        )
        present = {name: values[0] for name, values in CHOICES.items()}
        space = Space(present, present, CHOICES, [], profile)
        with ExitStack() as stack:
            study = Study.open(settings, stack, print)
            earlier = study.join(profile, CHOICES, print)
            arena = Watched(speed, self.tried, survived)
            found = study.optuna()
            keeping = Keeping(
                PlainProgress(StringIO()), lambda: 0.0, math.inf, study.store, study.name, space.present
            )
            search = Search(
                arena, space, profile, found, keeping, math.inf,  # type: ignore[arg-type]  # scripted
                max_trials=self.trials, earlier=earlier, sampler=study.sampler(found, self.step_s),
                next_number=study.next_number(),
            )  # fmt: skip
            try:
                return search.run(None)
            except Killed:
                return None


class Watched(ScriptedArena):
    """Notes each configuration once per trial, and ends the tuner in one of them."""

    def __init__(self, speed: Any, tried: list[Any], survived: float) -> None:
        super().__init__(speed)
        self._tried, self._left = tried, survived

    def ratio(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> float:
        asked = tuple(sorted(second.items())), tuple(sorted(first.items()))
        if not self._tried or self._tried[-1] != asked:
            if self._left == 0:
                raise Killed
            self._left -= 1
            self._tried.append(asked)
        return super().ratio(first, second)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def a_part(folder: Path, step_s: float, trials: int | None = None) -> Part:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("import torch\n")
    return Part(folder, step_s, trials)


@pytest.mark.parametrize(
    ("step_s", "trials"),
    [(QUICK_S, None), (SLOW_S, None), (QUICK_S, 24)],
    ids=["TPE", "GP", "TPE, 24 trials"],
)
def test_wherever_a_study_is_cut_off_the_rest_is_what_it_would_have_been(
    step_s: float, trials: int | None, tmp_path: Path
) -> None:
    whole = a_part(tmp_path / "whole", step_s, trials)
    nominee = whole.run()
    assert sum(proposed(tmp_path / "whole")) >= 3, "the sampler had a say"
    last = len(whole.tried) - 1
    for survived in (last // 2, last - 2, last):
        part = a_part(tmp_path / f"after{survived}", step_s, trials)
        assert part.run(survived=survived) is None
        assert part.run(resume=True) == nominee
        assert part.tried == whole.tried, survived


def test_it_is_the_same_where_the_sampler_is_shown_only_some_of_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MOST": 12, "BEST": 4, "LATEST": 4, "DRAWS": 2}.items():
        monkeypatch.setattr(learnt, name, value)
    whole, part = a_part(tmp_path / "whole", QUICK_S), a_part(tmp_path / "part", QUICK_S)
    nominee = whole.run()
    assert len(proposed(tmp_path / "whole")) > 13, "some were left out"
    assert part.run(survived=len(whole.tried) - 2) is None
    assert (part.run(resume=True), part.tried) == (nominee, whole.tried)


def test_a_study_that_is_cut_off_again_and_again_goes_the_same_way(tmp_path: Path) -> None:
    whole, part = a_part(tmp_path / "whole", QUICK_S), a_part(tmp_path / "part", QUICK_S)
    nominee, found, runs = whole.run(), None, 0
    while found is None:
        found = part.run(resume=runs > 0, survived=4)
        runs += 1
    assert (found, part.tried) == (nominee, whole.tried)
    assert runs > 3


def test_a_resumed_study_keeps_to_the_sampler_that_it_began_with(tmp_path: Path) -> None:
    part = a_part(tmp_path / "part", SLOW_S)
    part.run(survived=2)
    part.step_s = QUICK_S
    part.run(resume=True)
    whole = a_part(tmp_path / "whole", SLOW_S)
    whole.run()
    assert part.tried == whole.tried


def proposed(folder: Path) -> list[bool]:
    """Of each trial of Optuna's whether its sampler chose it."""
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{folder}/studies.db")
    return ["fixed_params" not in trial.system_attrs for trial in study.trials]
