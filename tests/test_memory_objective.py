"""Where the gain is one of memory, nothing that is told of time comes of it."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import a_loader, a_profile, a_root
from result_builder import a_ratio, a_recommendation, a_result

from advisor import wording
from advisor.assemble import _planned, _recommendation
from advisor.batches import Batches
from advisor.confirmation import Confirmation, Outcome
from advisor.disturbances import disturbances
from advisor.profiles.profile import RunFacts
from advisor.result import PlannedRun, Recommendation
from advisor.settings import Settings, TargetRequest
from advisor.tuners import gate
from advisor.tuners.ahead import Ahead
from advisor.tuners.duel import WINDOWS, Duel
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.measure import MIN_INSTANCES, Slot, within

EAGER: dict[str, Value] = {"execution": "eager"}
COMPILED: dict[str, Value] = {"execution": "compile"}
SAVED = 1.5  # of memory
LOSSES = (2.30, 2.20, 2.11, 2.05)
PROFILE = a_profile(loader=a_loader(dataset_length=1000), roots=(a_root(),), run=RunFacts())
BASELINE = SimpleNamespace(profile=PROFILE, detectable=0.02, step_s=0.1, aa=within([0.0] * 8, 0.99))


def confirmed(
    monkeypatch: pytest.MonkeyPatch, changed_step_s: float, objective: str = "memory", **options: Any
) -> Outcome:
    """A compiled program whose windows take ``changed_step_s`` a step, and less memory."""
    ratio = math.log(SAVED if objective == "memory" else 0.1 / changed_step_s)
    monkeypatch.setattr(gate, "learn", lambda *of, **how: gate.Learning(LOSSES, 1, compile_s=30.0))

    def duel(*of: Any, **how: Any) -> Duel:
        return Duel(WINDOWS, [ratio], [Slot((0.1,) * 5)], [Slot((changed_step_s,) * 5)])

    arena = SimpleNamespace(
        knobs=KNOBS, launcher=SimpleNamespace(target=SimpleNamespace(kind="script")), step_s=0.1, threads=1,
        max_steps=None, quad_s=0.1, sigma=0.02, log="", steps=lambda: 5, duel=duel, ahead=Ahead(),
        how=lambda *configs, **options: WINDOWS, queue_depth=lambda config: 0,
        window_steps=lambda config: (3, 5),
    )  # fmt: skip
    space = SimpleNamespace(present=EAGER, complete=lambda changed: {**EAGER, **changed}, key=str)
    quiet = SimpleNamespace(say=lambda text: None, begin=lambda *of: None, record=lambda *of: None)
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), objective=objective, **options)
    monkeypatch.setattr(Confirmation, "_run_longer", lambda *of: None)
    return Confirmation(
        cast(Any, arena), cast(Any, space), cast(Any, BASELINE), settings, cast(Any, quiet), cast(Any, quiet),
        deadline=math.inf, next_number=1, clock=lambda: 0.0,
    ).decide(COMPILED)  # fmt: skip


def told(outcome: Outcome, **options: Any) -> tuple[Recommendation, PlannedRun | None]:
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), objective="memory", **options)
    batches = Batches(settings, cast(Any, None))
    space, baseline = cast(Any, SimpleNamespace(present=EAGER)), cast(Any, BASELINE)
    found = _recommendation(settings, baseline, space, outcome, batches)
    return found, _planned(settings, baseline, space, found, batches)


def test_the_steps_of_the_windows_say_what_saved_memory_costs_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, run = told(confirmed(monkeypatch, 0.125), steps_planned=1000, price_per_hour=36.0)
    assert found.verdict == "change" and found.speedup.estimate == pytest.approx(SAVED)
    assert found.time_ratio is not None and found.time_ratio.estimate == pytest.approx(0.8)
    assert found.time_ratio.instances == MIN_INSTANCES and found.break_even_steps is None
    assert run is not None and run.changed_seconds is not None and run.changed_cost is not None
    assert run.changed_seconds.estimate == pytest.approx(125 + 30)
    assert run.changed_cost == pytest.approx(1.55)


def test_compiling_breaks_even_by_the_time_that_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = told(confirmed(monkeypatch, 0.05))
    assert found.break_even_steps == 600


def test_saved_memory_need_not_be_paid_back_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert confirmed(monkeypatch, 0.05, steps_planned=599).verdict == "change"
    by_time = confirmed(monkeypatch, 0.05, "throughput", steps_planned=599)
    assert by_time.verdict == "keep" and by_time.reason.startswith(wording.UNPAID)
    assert by_time.time is None and by_time.step_ratio == pytest.approx(2.0)


def test_where_the_time_was_not_measured_nothing_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = confirmed(monkeypatch, 0.05)
    outcome.time = outcome.step_ratio = None
    found, run = told(outcome, steps_planned=1000)
    assert found.verdict == "change" and found.time_ratio is None and found.break_even_steps is None
    assert run is not None and run.seconds == pytest.approx(100.0) and run.changed_seconds is None


def test_clocks_are_compared_with_each_other_and_not_with_memory() -> None:
    of_memory = {"speedup": a_ratio(1.5, 1.4, 1.6), "cpu_speedup": a_ratio(0.9, 0.89, 0.91)}

    def disagree(**known: Any) -> bool:
        found = a_recommendation(**of_memory, **known)
        said = disturbances(a_result(objective="memory", recommendation=found))
        return any("clocks disagree" in text for text in said)

    assert not disagree() and not disagree(time_ratio=a_ratio(0.9, 0.88, 0.92))
    assert disagree(time_ratio=a_ratio(1.1, 1.05, 1.15))


def test_the_verdict_says_what_saved_memory_costs_in_time() -> None:
    def verdict(*ends: float) -> str:
        found = a_recommendation(speedup=a_ratio(1.5, 1.4, 1.6), time_ratio=a_ratio(*ends))
        return wording.verdict(a_result(objective="memory", recommendation=found))

    assert ", throughput 0.90x (0.88 to 0.92), peak memory" in verdict(0.9, 0.88, 0.92)
    assert ", no clear difference in throughput (0.98 to 1.03), peak memory" in verdict(1.0, 0.98, 1.03)
