"""What is taken out of a nominee because its numbers drift, also beside a batch that nothing can judge."""

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from builders import a_profile, a_root
from confirmation_builder import a_bench

from advisor.base.settings import GRACE
from advisor.stages.confirming.numerics import Numerics, NumericsGate
from advisor.stages.confirming.numerics_check import NumericsCheck
from advisor.tuners.comparing import gate
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration

RIGHT = (2.30, 2.20, 2.11, 2.05)
WRONG = (2.40, 2.31, 2.22, 2.16)
OTHER_SEED = (2.31, 2.19, 2.12, 2.04)
PRESENT: dict[str, Value] = {
    "batch_size": 16, "lr_scaling": "none", "mkldnn": "on", "channels_last": "off", "flush_denormal": "off",
}  # fmt: skip
Losses = Callable[[Mapping[str, Value]], tuple[float, ...]]


def checked(
    monkeypatch: pytest.MonkeyPatch,
    nominee: dict[str, Value],
    losses: Losses,
    complete: Callable[[Mapping[str, Value]], dict[str, Value]] = lambda changed: {**PRESENT, **changed},
    left_s: float = 1000.0,
) -> Numerics:
    """Judge a nominee whose losses follow from its configuration."""

    def learn(
        arena: Any, config: Mapping[str, Value], steps: int = 0, seed_offset: int = 0, nudge: int = 0
    ) -> gate.Learning:
        peak = 100 * int(config["batch_size"])
        return gate.Learning(OTHER_SEED if seed_offset else losses(config), peak)

    monkeypatch.setattr(gate, "learn", learn)
    arena: Any = SimpleNamespace(
        knobs=KNOBS, launcher=SimpleNamespace(target=SimpleNamespace(kind="workload")), step_s=0.01,
        max_steps=None, clock=lambda: 0.0, timed=False,
    )  # fmt: skip
    space: Any = SimpleNamespace(
        present=PRESENT,
        complete=lambda changed: Configuration(complete(changed)),
        without=lambda config, knob: Configuration(complete(config.with_({knob: PRESENT[knob]}))),
    )
    baseline: Any = SimpleNamespace(profile=a_profile(roots=(a_root(),)))
    settings: Any = SimpleNamespace(budget_s=100.0)
    bench = a_bench(arena, baseline, settings, end=left_s)
    return NumericsCheck(NumericsGate.open(bench, PRESENT, GRACE), space).run(Configuration(nominee))


def test_what_is_changed_beside_a_batch_is_judged_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nominee = {**PRESENT, "batch_size": 64, "lr_scaling": "sqrt", "mkldnn": "off"}
    found = checked(monkeypatch, nominee, lambda config: WRONG if config["mkldnn"] == "off" else RIGHT)
    assert found.config == {**nominee, "mkldnn": "on"}
    assert found.verdicts["mkldnn"].verdict == "drifts" and "mkldnn" in found.rejected
    assert found.verdicts[""].verdict == "not_checked"


def test_it_is_judged_also_where_there_is_no_time_for_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    nominee = {**PRESENT, "batch_size": 64, "mkldnn": "off"}
    drifting = checked(monkeypatch, nominee, lambda c: WRONG if c["mkldnn"] == "off" else RIGHT, left_s=0.0)
    assert drifting.config == {**PRESENT, "batch_size": 64}
    fine = checked(monkeypatch, nominee, lambda config: RIGHT, left_s=0.0)
    assert fine.config == nominee
    assert fine.verdicts["mkldnn"].verdict == "identical"
    assert fine.verdicts[""].verdict == "not_checked"


def test_changes_that_drift_only_together_are_taken_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    nominee = {**PRESENT, "batch_size": 64, "mkldnn": "off", "channels_last": "on"}

    def losses(config: Mapping[str, Value]) -> tuple[float, ...]:
        return WRONG if (config["mkldnn"], config["channels_last"]) == ("off", "on") else RIGHT

    found = checked(monkeypatch, nominee, losses)
    assert found.config == {**PRESENT, "batch_size": 64}
    assert found.rejected.keys() == {"mkldnn", "channels_last"}


def test_a_batch_whose_losses_are_not_finite_is_no_matter_of_judgement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nominee = {**PRESENT, "batch_size": 64}
    found = checked(monkeypatch, nominee, lambda c: (2.3, math.nan) if c["batch_size"] == 64 else RIGHT)
    assert found.config == PRESENT and "NaN" in found.reason


def test_the_peak_told_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(monkeypatch, {**PRESENT, "batch_size": 64, "mkldnn": "off"}, lambda config: RIGHT)
    assert found.peaks == (6400,)


def test_without_a_batch_one_run_judges_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(monkeypatch, {**PRESENT, "mkldnn": "off"}, lambda config: RIGHT)
    assert found.verdicts.keys() == {""} and found.verdicts[""].verdict == "identical"


def test_where_the_whole_is_identical_no_change_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Mapping[str, Value]] = []
    nominee = {**PRESENT, "mkldnn": "off", "channels_last": "on"}

    def losses(config: Mapping[str, Value]) -> tuple[float, ...]:
        ran.append(config)
        return RIGHT

    found = checked(monkeypatch, nominee, losses)
    assert found.config == nominee and [config for config in ran if config != PRESENT] == [nominee]
    told = {name: verdict.verdict for name, verdict in found.verdicts.items()}
    assert told == {"": "identical", "mkldnn": "identical", "channels_last": "identical"}


def test_what_acts_only_beside_a_change_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nominee = {**PRESENT, "mkldnn": "off", "channels_last": "on"}

    def complete(changed: Mapping[str, Value]) -> dict[str, Value]:
        full = {**PRESENT, **changed}
        return full if full["mkldnn"] == "off" else {**full, "channels_last": "off"}

    found = checked(monkeypatch, nominee, lambda c: WRONG if c["mkldnn"] == "off" else RIGHT, complete)
    assert found.config == PRESENT
    assert found.reason and found.reason == found.rejected["mkldnn"]


def only_beside_flushing(changed: Mapping[str, Value]) -> dict[str, Value]:
    full = {**PRESENT, **changed}
    return full if full["flush_denormal"] == "on" else {**full, "channels_last": "off"}


MANY: dict[str, Value] = {
    "batch_size": 64, "lr_scaling": "none", "mkldnn": "off", "channels_last": "on", "flush_denormal": "on",
}  # fmt: skip


def test_a_verdict_on_several_is_forgotten_once_one_of_them_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(
        monkeypatch, MANY, lambda c: WRONG if c["mkldnn"] == "off" else RIGHT, only_beside_flushing
    )
    assert found.config == {**MANY, "mkldnn": "on"}
    assert found.verdicts["mkldnn"].verdict == "drifts"
    assert found.verdicts["channels_last"].verdict == "identical"


def test_a_batch_is_not_rejected_for_what_drifts_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """channels_last, which cannot be judged alone, drifts once more when mkldnn is out."""

    def losses(config: Mapping[str, Value]) -> tuple[float, ...]:
        return WRONG if config["mkldnn"] == "off" or config["channels_last"] == "on" else RIGHT

    found = checked(monkeypatch, MANY, losses, only_beside_flushing)
    assert found.config == {**PRESENT, "batch_size": 64}
    assert found.rejected.keys() == {"mkldnn", "channels_last", "flush_denormal"}
