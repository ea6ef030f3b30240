"""A whole run on requests to a trained model, replayed: what is recommended, and what speaks against it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_rich_profile
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.base.errors import UsageError
from advisor.base.settings import GRACE
from advisor.profiles.facts.profile import Profile
from advisor.report.files import render_text

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

EXACT = {"mkldnn": ["off"]}
PRECISION = {"amp": ["bf16"]}
HALF = Effect(where(mkldnn="off"), step=0.5)
BF16 = where(amp="bf16")
SAMPLES = 600  # enough for one decision in a hundred, and little to read


def serving() -> Profile:
    profile = a_rich_profile()
    assert profile.run is not None
    return replace(profile, run=replace(profile.run, clock="request"), optimizers=())


def served(tmp_path: Path, *effects: Effect, samples: int = SAMPLES, **options: Any) -> Replay:
    program = Program(effects, profile=serving(), step_s=0.01, samples=samples)
    return replayed(program, tmp_path, **{"objective": "latency", **options})


def test_a_faster_form_that_says_the_same_is_recommended_with_its_percentiles(tmp_path: Path) -> None:
    run = served(tmp_path, HALF, knobs=EXACT, out=tmp_path / "out")
    found = run.result.recommendation
    assert found.verdict == "change" and found.config == {"mkldnn": "off"} and found.numerics == "identical"
    before, after, slow = run.result.baseline.latency, found.latency, found.slow_requests
    assert before is not None and after is not None and slow is not None
    assert before.p50_ms == pytest.approx(10, rel=0.05) and after.p50_ms == pytest.approx(5, rel=0.05)
    assert before.p90_ms >= before.p50_ms and before.cold_start_s == pytest.approx(2.0, rel=0.05)
    assert slow.tail == "not_longer" and slow.p90_speedup == pytest.approx(2, rel=0.05)
    assert run.result.objective == "latency" and run.result.planned is None
    told = render_text(run.result, 100, None)
    assert "a request" in told and "p90" in told and "a step" not in told
    assert "p90" in (tmp_path / "out" / "report.html").read_text()


def test_a_planted_tail_is_vetoed_although_the_median_is_shorter(tmp_path: Path) -> None:
    tail = Effect(where(mkldnn="off"), step=0.5, one_in_fifty=20.0)  # ten times the baseline's
    found = served(tmp_path, tail, knobs=EXACT).result.recommendation
    assert found.verdict == "keep" and "tail not shown: p99 is 9." in found.reason
    assert found.slow_requests is not None and found.slow_requests.tail == "not_shown"


def test_what_is_next_best_is_confirmed_where_the_best_has_a_tail(tmp_path: Path) -> None:
    tail = Effect(where(mkldnn="off"), step=0.5, one_in_fifty=20.0)
    knobs = EXACT | {"placebo": ["on"]}
    run = served(tmp_path, tail, Effect(where(placebo="on"), step=0.7), knobs=knobs, budget_s=600.0)
    found = run.result.recommendation
    assert found.verdict == "change" and [change.knob for change in found.changes] == ["placebo"]
    assert run.result.budget.stopped_by == "converged"


def test_slow_requests_are_too_few_to_tell_a_tail_and_it_is_said(tmp_path: Path) -> None:
    program = Program([HALF], profile=serving(), step_s=0.4, samples=SAMPLES)
    found = replayed(
        program, tmp_path, objective="latency", knobs=EXACT, budget_s=900.0
    ).result.recommendation
    assert found.verdict == "change" and found.slow_requests is not None
    assert found.slow_requests.tail == "too_few" and "662 at least" in found.slow_requests.said


@pytest.mark.parametrize(
    ("wrong", "samples", "verdict", "reason"),
    [
        (0.0001, SAMPLES, "change", ""),
        (0.3, SAMPLES, "keep", "decisions change"),
        (0.0001, 50, "keep", "to tell them from 1.00% takes about 459 samples"),
    ],
)
def test_fewer_bits_need_answers_that_agree_on_enough_samples(
    wrong: float, samples: int, verdict: str, reason: str, tmp_path: Path
) -> None:
    fewer = Effect(BF16, step=0.5, wrong=wrong)
    found = served(tmp_path, fewer, samples=samples, knobs=PRECISION).result.recommendation
    assert found.verdict == verdict and reason in found.reason


@pytest.mark.parametrize(
    ("saturates", "reason"), [(True, "sums of 16 bits saturate"), (False, "decisions change")]
)
def test_a_kernel_that_saturates_is_named(saturates: bool, reason: str, tmp_path: Path) -> None:
    wrong = Effect(BF16, step=0.5, wrong=0.2, saturates=saturates)
    found = served(tmp_path, wrong, knobs=PRECISION).result.recommendation
    assert found.verdict == "keep" and reason in found.reason


def test_a_script_whose_inputs_come_once_is_compared_with_itself_in_another_process(tmp_path: Path) -> None:
    fewer = Effect(BF16, step=0.5, wrong=0.0001)
    program = Program([fewer], profile=serving(), step_s=0.01, samples=SAMPLES, inputs_once=True)
    found = replayed(program, tmp_path, objective="latency", knobs=PRECISION).result.recommendation
    assert found.verdict == "change" and found.config == {"amp": "bf16"}, found.reason


def test_a_script_that_goes_on_from_its_answers_is_asked_what_the_unchanged_one_was(tmp_path: Path) -> None:
    fewer = Effect(BF16, step=0.5, wrong=0.0001)
    program = Program([fewer], profile=serving(), step_s=0.01, samples=SAMPLES, feeds_itself=True)
    found = replayed(program, tmp_path, objective="latency", knobs=PRECISION).result.recommendation
    assert found.verdict == "change" and found.config == {"amp": "bf16"}, found.reason


def test_a_form_that_says_something_else_is_refused_to_such_a_script(tmp_path: Path) -> None:
    off = Effect(BF16, step=0.5, wrong=0.3)
    program = Program([off], profile=serving(), step_s=0.01, samples=SAMPLES, feeds_itself=True)
    result = replayed(program, tmp_path, objective="latency", knobs=PRECISION).result
    assert result.recommendation.verdict == "keep"
    assert any(each.knob == "amp" and "decisions change" in each.reason for each in result.not_tried)


def test_of_two_changes_the_one_that_says_something_else_is_left_out(tmp_path: Path) -> None:
    off = Effect(BF16, step=0.6, wrong=0.3)
    result = served(tmp_path, HALF, off, knobs={**EXACT, **PRECISION}, budget_s=300.0).result
    assert result.recommendation.config == {"mkldnn": "off", "amp": "off"}
    assert any(each.knob == "amp" and "decisions change" in each.reason for each in result.not_tried)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("objective", ["latency", "requests"])
def test_what_does_nothing_is_not_recommended(objective: str, seed: int, tmp_path: Path) -> None:
    program = Program(profile=serving(), step_s=0.01, samples=SAMPLES, seed=seed)
    result = replayed(program, tmp_path, objective=objective, knobs={"placebo": None}).result
    assert result.recommendation.verdict == "keep"


@pytest.mark.parametrize("objective", ["latency", "requests"])
def test_a_limit_is_kept_from_arrival_to_answer_and_told_beside_it(objective: str, tmp_path: Path) -> None:
    result = served(tmp_path, HALF, knobs=EXACT, objective=objective, latency_limit_s=0.03).result
    found = result.recommendation
    assert found.verdict == "change", found.reason
    assert result.baseline.latency is not None and found.latency is not None
    before, after = result.baseline.latency.under_limit, found.latency.under_limit
    assert before is not None and after is not None and before.percentile == 99
    assert [load.requests_per_s for load in before.loads] == [load.requests_per_s for load in after.loads]
    assert [load.within_limit for load in after.loads] == [True, True, True]
    assert not before.loads[2].within_limit and after.most_per_s > 1.5 * before.most_per_s
    told = render_text(result, 200, None)
    assert "Arrivals at random, p99 at" in told and "over the limit" in told and "within 30 ms" in told


def test_a_faster_form_over_the_limit_is_not_recommended(tmp_path: Path) -> None:
    result = served(tmp_path, HALF, knobs=EXACT, latency_limit_s=0.004).result
    found = result.recommendation
    assert found.verdict == "keep" and "the limit of 4 ms is not kept at" in found.reason
    assert result.baseline.latency is not None and result.baseline.latency.under_limit is not None
    assert result.baseline.latency.under_limit.most_per_s == 0


def test_few_slow_requests_keep_a_limit_by_their_90th_percentile(tmp_path: Path) -> None:
    program = Program([HALF], profile=serving(), step_s=0.4, samples=SAMPLES)
    result = replayed(
        program, tmp_path, objective="latency", knobs=EXACT, budget_s=900.0, latency_limit_s=2.0
    ).result
    found = result.recommendation
    assert found.verdict == "change", found.reason
    assert found.latency is not None and found.latency.under_limit is not None
    assert found.latency.under_limit.percentile == 90


def together(step: float) -> tuple[Effect, Profile]:
    """Eight samples a request, of which 32 take so many times as long as eight."""
    profile = serving()
    assert profile.run is not None
    asked = where(serving_batch=32)
    return Effect(asked, step=step), replace(profile, run=replace(profile.run, requests_batch=8))


@pytest.mark.parametrize(
    ("step", "limit_s", "best"), [(1.5, None, 32), (4.2, None, 16), (1.5, 0.06, 32), (1.5, 0.025, 16)]
)
def test_several_samples_in_a_call_count_by_the_sample_and_within_a_limit(
    step: float, limit_s: float | None, best: int, tmp_path: Path
) -> None:
    effect, profile = together(step)
    program = Program([effect], profile=profile, step_s=0.01, samples=SAMPLES)
    result = replayed(
        program, tmp_path, objective="requests", knobs={"serving_batch": [16, 32]}, latency_limit_s=limit_s
    ).result
    found = result.recommendation
    assert found.verdict == "change", found.reason
    assert found.config == {"serving_batch": best}
    assert found.speedup.estimate == pytest.approx(best / 8 / (step if best == 32 else 1), rel=0.05)
    late = [trial for trial in result.trials if "two calls more than the limit" in trial.message]
    assert bool(late) == (limit_s == 0.025)


@pytest.mark.parametrize("request_s", [5.0, 10.0, 15.0])
@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_slow_requests_keep_the_budget_or_are_refused_with_one_that_suffices(
    request_s: float, slower: float, tmp_path: Path
) -> None:
    program = Program(
        [HALF], profile=serving(), step_s=request_s, samples=SAMPLES,
        slower=lambda now: slower if now > 60.0 else 1.0,
    )  # fmt: skip
    try:
        run = replayed(program, tmp_path, objective="latency", knobs=EXACT, budget_s=180.0)
    except UsageError as refused:
        assert "one baseline run takes" in str(refused) and re.search(r"--budget \d+m", str(refused.hint))
        return
    assert run.launcher.now <= (1 + GRACE) * 180.0
