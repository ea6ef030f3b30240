"""What findings mean for a search, and what became of their advice."""

from typing import Any

import pytest
from result_builder import NOW, a_ratio, a_recommendation, a_trial, an_adopted

from advisor.advice.finding import Ceiling, Finding, Kind, Outcome, Severity, State
from advisor.result.document import Recommendation, Trial, Untried
from advisor.stages.diagnosing.guidance import priorities, with_outcomes
from advisor.tuners.comparing.excluded import BESIDE_ONE, HELD_DOWN

KEEP = a_recommendation(verdict="keep", config=dict(NOW), changes=[], speedup=a_ratio(1.0, 0.98, 1.02))


def a_finding(*knobs: str, low: float | None = 0.3, **fields: Any) -> Finding:
    """An opportunity whose ceiling begins at ``low``; without it a diagnostic."""
    state = State.OPPORTUNITY if low is not None else State.DIAGNOSTIC
    ceiling = None if low is None else Ceiling(low + 0.1, low, low + 0.2, "replay")
    values: dict[str, Any] = {"state": state, "severity": Severity.HIGH, "ceiling": ceiling, "knobs": knobs}
    return Finding("input_bound", Kind.WASTE, **(values | fields))


def judged(
    finding: Finding,
    *trials: Trial,
    recommendation: Recommendation = KEEP,
    not_tried: tuple[Untried, ...] = (),
) -> Finding:
    (found,) = with_outcomes([finding], recommendation, trials, not_tried, NOW)
    return found


def tried(ratio: Any = None, **config: Any) -> Trial:
    fields = {"state": "failed"} if ratio is None else {}
    return a_trial(1, ratio, config=NOW | config, **fields)


def test_a_knob_is_as_urgent_as_the_surest_gain_that_names_it() -> None:
    findings = [a_finding("num_workers", "amp", low=0.2), a_finding("num_workers", low=0.4)]
    assert priorities(findings) == {"num_workers": 0.4, "amp": 0.2}


def test_a_finding_without_a_ceiling_is_a_small_reason_to_try() -> None:
    assert priorities([a_finding("amp", low=None)]) == {"amp": 0.05}


@pytest.mark.parametrize("state", [State.PASSED, State.NOT_APPLICABLE, State.ERROR])
def test_what_did_not_fire_is_no_reason_to_try(state: State) -> None:
    assert priorities([a_finding("amp", state=state)]) == {}


def test_advice_that_is_the_whole_recommendation_is_confirmed_by_its_speedup() -> None:
    alone = a_recommendation(changes=a_recommendation().changes[:1])
    finding = judged(a_finding("num_workers"), recommendation=alone)
    assert (finding.outcome, finding.measured) == (Outcome.CONFIRMED, (2.09, 2.01, 2.17))


def test_advice_that_is_a_part_of_the_recommendation_is_confirmed_by_its_own_share() -> None:
    finding = judged(a_finding("num_workers", "prefetch_factor"), recommendation=a_recommendation())
    assert (finding.outcome, finding.measured) == (Outcome.CONFIRMED, (1.65, 1.55, 1.75))


def test_a_part_whose_share_was_not_measured_is_confirmed_without_a_figure() -> None:
    parts = [
        an_adopted(knob=knob, before=0, to=1, semantics="exact") for knob in ("num_workers", "channels_last")
    ]
    trial = tried(a_ratio(1.0, 0.98, 1.02), num_workers=1)
    finding = judged(a_finding("num_workers"), trial, recommendation=a_recommendation(changes=parts))
    assert (finding.outcome, finding.measured) == (Outcome.CONFIRMED, None)
    assert finding.why == "num_workers=1, part of the recommendation; its own share was not measured"


def test_values_that_were_all_slower_make_the_advice_harmful() -> None:
    trials = tried(a_ratio(0.8, 0.75, 0.85), amp="bf16"), tried(a_ratio(0.7, 0.6, 0.8), amp="fp16")
    finding = judged(a_finding("amp"), *trials)
    assert (finding.outcome, finding.measured) == (Outcome.HARMFUL, (0.8, 0.75, 0.85))
    assert finding.severity is Severity.HIGH


def test_a_trial_dropped_early_because_it_was_slower_counts() -> None:
    slow = a_trial(1, a_ratio(0.7, 0.6, 0.8), config=NOW | {"amp": "fp16"}, state="pruned")
    assert judged(a_finding("amp"), slow).outcome is Outcome.HARMFUL


SLOWER = a_ratio(0.6, 0.4, 0.9)


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        (BESIDE_ONE, "other processes ran beside one side of the comparison alone"),
        (HELD_DOWN, "the machine was held to lower speed"),
        ("thread_collapse: 2 threads had 0.9 CPUs beside 1.4 of other load",
         "2 threads had 0.9 CPUs beside 1.4 of other load"),
    ],
    ids=["load", "throttled", "collapse"],
)  # fmt: skip
def test_what_was_slower_in_disturbed_looks_could_not_be_told(mark: str, why: str) -> None:
    disturbed = a_trial(1, SLOWER, config=NOW | {"amp": "bf16"}, marks=[mark])
    finding = judged(a_finding("amp"), disturbed, tried(a_ratio(0.5, 0.4, 0.6), amp="fp16"))
    assert (finding.outcome, finding.measured) == (Outcome.NOT_TESTED, None)
    assert finding.why == f"amp=bf16: 0.6x (0.4 to 0.9) while {why}: it could not be told"


def test_while_threads_collapse_nothing_is_called_harmful() -> None:
    collapse = Finding("thread_collapse", Kind.RISK, state=State.DIAGNOSTIC)
    slower, finding = tried(SLOWER, amp="bf16"), a_finding("amp")
    of_findings = with_outcomes([finding, collapse], KEEP, [slower], (), NOW)[0]
    of_baseline = with_outcomes([finding], KEEP, [slower], (), NOW, collapsed=True)[0]
    assert of_findings == of_baseline and of_baseline.outcome is Outcome.NOT_TESTED
    assert "while threads collapsed under other load: it could not be told" in of_baseline.why


def test_a_look_that_was_taken_again_undisturbed_counts() -> None:
    again = a_trial(
        1, SLOWER, config=NOW | {"amp": "bf16"}, marks=["measured once more: interference, other load"]
    )
    assert judged(a_finding("amp"), again).outcome is Outcome.HARMFUL


def test_no_clear_difference_is_no_effect_and_matters_little() -> None:
    finding = judged(a_finding("amp"), tried(a_ratio(1.01, 0.98, 1.04), amp="bf16"))
    assert (finding.outcome, finding.measured) == (Outcome.NO_EFFECT, (1.01, 0.98, 1.04))
    assert finding.severity is Severity.LOW


def test_less_than_one_percent_is_no_effect_however_sure() -> None:
    assert (
        judged(a_finding("amp"), tried(a_ratio(1.008, 1.006, 1.01), amp="bf16")).outcome is Outcome.NO_EFFECT
    )


def test_one_value_that_does_no_harm_is_enough_not_to_call_it_harmful() -> None:
    trials = tried(a_ratio(0.8, 0.75, 0.85), amp="bf16"), tried(a_ratio(1.0, 0.98, 1.02), amp="fp16")
    assert judged(a_finding("amp"), *trials).outcome is Outcome.NO_EFFECT


def test_a_gain_that_was_never_confirmed_is_not_counted_as_tested() -> None:
    finding = judged(a_finding("amp"), tried(a_ratio(1.3, 1.2, 1.4), amp="bf16"))
    assert (finding.outcome, finding.measured) == (Outcome.NOT_TESTED, None)
    assert finding.why == "amp=bf16: 1.30x (1.20 to 1.40) in the search alone, not confirmed"


def test_a_trial_that_changes_other_knobs_too_says_nothing_about_the_advice() -> None:
    finding = judged(a_finding("amp"), tried(a_ratio(0.5, 0.4, 0.6), amp="bf16", channels_last="on"))
    assert finding.why == "the search did not come to it"


@pytest.mark.parametrize(
    ("finding", "not_tried", "why"),
    [
        (a_finding(), (), "the advice is for you to follow: no knob can try it"),
        (a_finding("fsdp", "zero"), (), "the search did not come to it"),
        (a_finding("amp", "fsdp"), (), "the search did not come to it"),
        (a_finding("amp"), (Untried(knob="amp", reason="no units for it"),), "amp: no units for it"),
        (a_finding("num_workers"), (Untried(knob="num_workers", value=16, reason="4 CPUs are allowed"),),
         "num_workers=16: 4 CPUs are allowed"),
        (a_finding("amp"), (Untried(knob="pin_memory", reason="no accelerator"),),
         "the search did not come to it"),
    ],
    ids=["advice", "to come", "not reached", "left out", "a value left out", "another left out"],
)  # fmt: skip
def test_what_was_not_tested_says_why(finding: Finding, not_tried: tuple[Untried, ...], why: str) -> None:
    found = judged(finding, not_tried=not_tried)
    assert (found.outcome, found.why) == (Outcome.NOT_TESTED, why)


def test_what_failed_when_it_was_tried_says_how() -> None:
    failed = a_trial(7, config=NOW | {"execution": "compile"}, state="failed", cause="compile_failed")
    finding = judged(a_finding("execution"), failed)
    assert (finding.outcome, finding.why) == (
        Outcome.NOT_TESTED,
        "execution=compile failed: compilation failed",
    )


def test_a_value_that_failed_does_not_hide_one_that_was_measured() -> None:
    failed = a_trial(7, config=NOW | {"amp": "fp16"}, state="failed", cause="oom_host")
    finding = judged(a_finding("amp"), failed, tried(a_ratio(0.8, 0.7, 0.9), amp="bf16"))
    assert finding.outcome is Outcome.HARMFUL


@pytest.mark.parametrize("state", [State.PASSED, State.NOT_APPLICABLE, State.ERROR])
def test_what_did_not_fire_stays_as_it_is(state: State) -> None:
    finding = a_finding("num_workers", state=state)
    assert judged(finding, recommendation=a_recommendation()) == finding


FUSED = "Update all parameters in one operator: pass `fused=True` to the optimizer."
LAUNCHES = ("execution", "optimizer_implementation", "batch_size")
COMPILED = a_recommendation(
    changes=[an_adopted(knob="execution", before="eager", to="compile", semantics="rounding")]
)


def test_a_confirmed_finding_says_by_which_change_and_that_its_advice_was_not_tried() -> None:
    finding = judged(a_finding(*LAUNCHES, advice=FUSED), recommendation=COMPILED)
    assert finding.outcome is Outcome.CONFIRMED
    assert finding.why == (
        "execution=compile: 2.09x (2.01 to 2.17); "
        "not tried: optimizer_implementation, which the advice is about"
    )


def test_advice_that_was_itself_confirmed_is_told_without_more() -> None:
    advice = "Compile the model: `model = torch.compile(model)`."
    finding = judged(a_finding(*LAUNCHES, advice=advice), recommendation=COMPILED)
    assert finding.why == "execution=compile: 2.09x (2.01 to 2.17)"


@pytest.mark.parametrize(
    ("config", "ratio", "told"),
    [
        ({"optimizer_implementation": "fused"}, a_ratio(1.01, 0.98, 1.04),
         "the advice, optimizer_implementation=fused: no clear difference (0.98 to 1.04)"),
        ({"optimizer_implementation": "fused"}, None,
         "failed: optimizer_implementation, which the advice is about"),
        ({"optimizer_implementation": "fused", "amp": "bf16"}, a_ratio(1.5, 1.4, 1.6),
         "not tried by itself: optimizer_implementation, which the advice is about"),
    ],
    ids=["tried", "failed", "with others"],
)  # fmt: skip
def test_what_became_of_the_advice_is_told_beside_what_was_confirmed(
    config: dict[str, Any], ratio: Any, told: str
) -> None:
    finding = judged(a_finding(*LAUNCHES, advice=FUSED), tried(ratio, **config), recommendation=COMPILED)
    assert finding.why == f"execution=compile: 2.09x (2.01 to 2.17); {told}"


def test_advice_that_no_knob_tries_is_not_what_was_confirmed() -> None:
    finding = judged(a_finding("execution", advice="Do less of it."), recommendation=COMPILED)
    assert finding.why.endswith("; what the advice says was not tried")


def test_of_two_adopted_changes_the_one_that_is_advised_counts() -> None:
    finding = a_finding("amp", "num_workers", advice="Autocast under `torch.autocast`.")
    found = judged(finding, recommendation=a_recommendation())
    assert (found.measured, found.why) == ((1.24, 1.18, 1.30), "amp=bf16: 1.24x (1.18 to 1.30)")


def test_no_effect_of_another_knob_is_not_one_of_the_advice() -> None:
    finding = judged(a_finding(*LAUNCHES, advice=FUSED), tried(a_ratio(1.0, 0.98, 1.02), execution="compile"))
    assert finding.outcome is Outcome.NO_EFFECT
    assert finding.why == (
        "execution=compile: no clear difference (0.98 to 1.02); "
        "not tried: optimizer_implementation, which the advice is about"
    )


@pytest.mark.parametrize(
    ("knobs", "advice", "asked", "why"),
    [
        (("prefetch_factor", "num_workers"), "Use `num_workers=2`.", {"execution"},
         "--knob left num_workers out"),
        (("num_workers",), "", {"execution"}, "--knob left num_workers out"),
        (("fsdp", "ddp"), "", {"execution"}, "--knob left strategy out"),
        (("num_workers", "execution"), "", {"execution"}, "the search did not come to it"),
        (("num_workers",), "", (), "the search did not come to it"),
        (("in_order",), "", (), "tried only when named: --knob in_order"),
        (("in_order", "num_workers"), "", (), "the search did not come to it"),
    ],
    ids=["advised", "only", "strategy", "one was named", "none named", "only when named", "one may be tried"],
)  # fmt: skip
def test_what_the_users_own_list_left_out_is_said_to_be_left_out_by_it(
    knobs: tuple[str, ...], advice: str, asked: Any, why: str
) -> None:
    (found,) = with_outcomes([a_finding(*knobs, advice=advice)], KEEP, [], [], NOW, asked)
    assert (found.outcome, found.why) == (Outcome.NOT_TESTED, why)
