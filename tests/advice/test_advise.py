"""All rules over one profile: order, causes, abstention, disturbance and failures."""

import random
from dataclasses import replace
from typing import Any

import pytest
from always_rules import Always, a_note, a_rule, order, said
from builders import a_gpu_profile, a_profile, a_rich_profile, a_share, a_window

from advisor.advice.advise import CLEAN_STEPS, advise, in_order
from advisor.advice.finding import Ceiling, Finding, Kind, Severity, State
from advisor.advice.rule import Rule
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules import RULES

BUSY = HostFacts(other_cpus=1.5)


def test_severity_decides_before_everything_else() -> None:
    low, medium, high = a_rule("a_low", 0.06), a_rule("b_medium", 0.15), a_rule("c_high", 0.5)
    assert order(low, medium, high) == ["c_high", "b_medium", "a_low"]


def test_within_a_severity_risks_of_wrong_results_and_of_an_early_end_stand_first_and_other_risks_last() -> (
    None
):
    rules = [
        a_note("a_risk", kind=Kind.RISK),
        a_note("b_headroom", kind=Kind.HEADROOM),
        a_note("c_waste", kind=Kind.WASTE),
        a_note("d_wrong_numbers", kind=Kind.RISK, correctness=True),
        a_note("e_ends_early", kind=Kind.RISK, fatal=True),
    ]
    assert order(*rules) == ["d_wrong_numbers", "e_ends_early", "c_waste", "b_headroom", "a_risk"]


def test_within_a_kind_the_lower_end_of_the_ceiling_decides_then_the_id() -> None:
    sure = Always("a", lambda rule, _: rule.opportunity("", rule.timeline(0.40, error=0.4), advice=""))
    wide = Always("b", lambda rule, _: rule.opportunity("", rule.timeline(0.38, error=0.05), advice=""))
    assert order(sure, wide) == ["b", "a"]
    assert order(a_rule("z", 0.3), a_rule("y", 0.3)) == ["y", "z"]


def test_what_did_not_fire_follows_as_passed_not_applicable_errors() -> None:
    def fails(rule: Rule, profile: Profile) -> Finding:
        raise KeyError("frames")

    rules = [
        Always("a_error", fails),
        Always("b_abstains", lambda rule, _: rule.not_applicable("device timeline", "needs a GPU")),
        Always("c_passes", lambda rule, _: rule.passed("0 of 10 steps")),
        a_rule("d_fires", 0.04),
    ]
    assert order(*rules) == ["d_fires", "c_passes", "b_abstains", "a_error"]


def test_a_rule_that_fails_costs_its_own_finding_alone() -> None:
    def fails(rule: Rule, profile: Profile) -> Finding:
        raise ZeroDivisionError("division by zero")

    found = said(a_profile(), Always("broken", fails), a_rule("sound"))
    assert found["broken"] == Finding(
        "broken", Kind.WASTE, State.ERROR, title="ZeroDivisionError: division by zero"
    )
    assert found["sound"].state is State.OPPORTUNITY


@pytest.mark.parametrize("share", [float("nan"), float("inf")])
def test_a_ceiling_that_is_no_number_is_an_error_of_its_rule(share: float) -> None:
    rule = Always(
        "odd", lambda rule, _: rule.opportunity("", Ceiling(share, share, share, "model"), advice="")
    )
    assert said(a_profile(), rule)["odd"].state is State.ERROR


def test_an_interrupt_is_no_failure_of_a_rule() -> None:
    def interrupted(rule: Rule, profile: Profile) -> Finding:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        said(a_profile(), Always("any", interrupted))


def test_a_cause_stands_before_a_symptom_that_it_explains_and_what_is_explained_stands_back() -> None:
    symptom, second, other = a_rule("symptom", 0.5), a_rule("second", 0.45), a_rule("other", 0.4)
    cause = a_rule("cause", 0.25, explains=("symptom", "second"))
    small = a_rule("small", 0.06)
    found = order(symptom, second, other, cause, small)
    assert found == ["cause", "other", "symptom", "second", "small"]
    part = a_rule("part", 0.15, explains=("symptom",))
    assert order(symptom, other, part) == ["part", "symptom", "other"]
    assert said(a_profile(), symptom, cause)["cause"].explains == "symptom"


def test_a_small_cause_explains_no_large_symptom() -> None:
    symptom, cause = a_rule("symptom", 0.5), a_rule("cause", 0.05, explains=("symptom",))
    assert order(symptom, cause) == ["symptom", "cause"]
    assert said(a_profile(), symptom, cause)["cause"].explains is None


def test_a_share_of_the_run_is_not_compared_with_one_of_a_step() -> None:
    def of_run(share: float) -> Always:
        def says(rule: Always, profile: Profile) -> Finding:
            return rule.opportunity("cause", rule.timeline(share, of="run"), advice="Do.")

        return Always("cause", says, explains=("symptom",))

    unsure = Always("symptom", lambda rule, _: rule.opportunity("", rule.timeline(0.4, 0.93), advice="Do."))
    assert order(unsure, of_run(0.04)) == ["cause", "symptom"]  # both are low
    assert order(a_rule("symptom", 0.5), of_run(0.02)) == ["symptom", "cause"]
    assert order(a_rule("symptom", 0.9), of_run(0.2)) == ["cause", "symptom"]


def test_a_cause_of_what_was_not_found_explains_nothing() -> None:
    passes = Always("symptom", lambda rule, _: rule.passed("0 %"))
    cause = a_rule("cause", explains=("symptom", "absent"))
    assert said(a_profile(), passes, cause)["cause"].explains is None


def test_a_cause_explains_the_nearest_symptom_that_was_found() -> None:
    near = Always("near", lambda rule, _: rule.passed("0 %"))
    cause = a_rule("cause", explains=("near", "far"))
    assert said(a_profile(), near, a_rule("far"), cause)["cause"].explains == "far"


def test_what_passed_explains_nothing_although_its_symptom_was_found() -> None:
    passes = Always("cause", lambda rule, _: rule.passed("0 %"), explains=("symptom",))
    assert said(a_profile(), passes, a_rule("symptom"))["cause"].explains is None


def test_a_cause_of_a_cause_stays_before_it_when_that_one_moves_up() -> None:
    rules = [
        a_rule("symptom", 0.9),
        a_rule("root", 0.8, explains=("cause",)),
        a_rule("cause", 0.7, explains=("symptom",)),
    ]
    assert order(*rules) == ["root", "cause", "symptom"]


def test_causes_stand_before_their_symptoms_whatever_their_ceilings() -> None:
    names = [f"r{number}" for number in range(7)]
    source = random.Random(3)
    for _ in range(300):
        explains = {name: source.choice(names[at + 1 :] or [""]) for at, name in enumerate(names)}
        found = [
            Finding(
                name, Kind.WASTE, State.OPPORTUNITY, source.choice(list(Severity)),
                explains=explains[name] or None,
                ceiling=Ceiling(0.5, source.random(), 0.9, "replay"),
            )
            for name in names
        ]  # fmt: skip
        ordered = [finding.rule for finding in in_order(found, {})]
        assert sorted(ordered) == names
        assert all(ordered.index(a) < ordered.index(b) for a, b in explains.items() if b)


def test_two_rules_that_explain_each_other_do_not_hang_the_order() -> None:
    assert sorted(order(a_rule("a", explains=("b",)), a_rule("b", explains=("a",)))) == ["a", "b"]


def test_a_confirmed_gain_stands_in_the_place_of_the_ceiling() -> None:
    promised = Finding(
        "promised", Kind.WASTE, State.OPPORTUNITY, Severity.HIGH, ceiling=Ceiling(0.4, 0.4, 0.4, "replay")
    )
    proven = replace(
        promised, rule="proven", ceiling=Ceiling(0.3, 0.3, 0.3, "replay"), measured=(2.1, 2.0, 2.2)
    )
    assert [finding.rule for finding in in_order([promised, proven], {})] == ["proven", "promised"]


@pytest.mark.parametrize(
    "host",
    [BUSY, HostFacts(throttled_share=0.2), HostFacts(gpu_temperature_c=90.0)],
    ids=["other load", "quota", "heat"],
)
def test_under_a_disturbance_a_claim_about_time_is_at_most_a_diagnostic_of_medium_severity(
    host: HostFacts,
) -> None:
    finding = said(a_profile(host=host), a_rule("slow", 0.5))["slow"]
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert finding.evidence["disturbed_by"] == (["other_load"] if host is BUSY else ["throttled"])


def test_a_disturbance_leaves_a_lower_severity_and_what_is_not_about_time() -> None:
    profile = a_profile(host=BUSY)
    assert said(profile, a_rule("slow", 0.05))["slow"].severity is Severity.LOW
    finding = said(profile, a_rule("bytes", 0.5, timed=False))["bytes"]
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.HIGH)


def test_little_other_load_disturbs_nothing() -> None:
    finding = said(a_profile(host=HostFacts(other_cpus=0.1)), a_rule("slow", 0.5))["slow"]
    assert finding.state is State.OPPORTUNITY
    assert "disturbed_by" not in finding.evidence


def stepped(steps: int, **facts: Any) -> Profile:
    return a_profile(phases=StepPhases(step_ms=10.0, forward_ms=5.0, steps=steps, **facts))


def test_below_ten_clean_steps_a_share_of_the_step_is_not_claimed() -> None:
    finding = said(stepped(CLEAN_STEPS - 1), a_rule("slow"))["slow"]
    assert (finding.state, finding.title) == (State.NOT_APPLICABLE, "9 clean steps: needs 10")
    assert said(stepped(CLEAN_STEPS), a_rule("slow"))["slow"].state is State.OPPORTUNITY


def test_few_steps_leave_shares_of_the_run_and_what_has_no_ceiling() -> None:
    of_run = Always("rare", lambda rule, _: rule.opportunity("", rule.timeline(0.3, of="run"), advice=""))
    found = said(stepped(3), of_run, a_note("note"), a_rule("bytes", timed=False))
    assert {finding.state for finding in found.values()} == {State.OPPORTUNITY, State.DIAGNOSTIC}


def test_a_finding_says_when_no_step_was_clean() -> None:
    finding = said(stepped(20, all_flagged=True), a_rule("slow"))["slow"]
    assert finding.evidence["every_step_flagged"] is True
    assert "every_step_flagged" not in said(stepped(20), a_rule("slow"))["slow"].evidence


def test_a_window_that_is_less_clear_than_half_the_claim_claims_nothing() -> None:
    rule = a_rule("slow_operator", 0.3, recorded=True)
    unclear = a_profile(window=a_window(residual=0.16))
    finding = said(unclear, rule)["slow_operator"]
    assert finding.state is State.NOT_APPLICABLE
    assert finding.title == (
        "the profiler's own cost leaves 16 % of the step unclear: "
        "that is more than half of the 30 % in question"
    )
    assert said(a_profile(window=a_window(residual=0.14)), rule)["slow_operator"].fired


def test_an_unclear_window_says_nothing_against_a_replay_or_against_rules_that_do_not_read_it() -> None:
    unclear = a_profile(window=a_window(residual=0.5))
    replayed = Always(
        "replayed",
        lambda rule, _: rule.opportunity("", rule.measured(a_share(0.3)), advice=""),
        recorded=True,
    )
    assert all(finding.fired for finding in said(unclear, replayed, a_rule("watched")).values())


@pytest.mark.parametrize(("steps", "low", "wide"), [(1, 0.2, True), (2, 0.2586, True), (3, 0.36, False)])
def test_a_trace_bears_findings_from_one_step_on_with_an_interval_that_says_so(
    steps: int, low: float, wide: bool
) -> None:
    profile = a_profile(phases_ms={"forward": 9.0}, target_kind="trace")
    assert profile.phases is not None
    profile = replace(profile, phases=replace(profile.phases, steps=steps))
    finding = said(profile, a_rule("any", 0.4))["any"]
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.HIGH
    assert finding.ceiling is not None and finding.ceiling.low == pytest.approx(low, abs=1e-4)
    assert finding.evidence == ({"few_steps": steps} if wide else {})


def test_what_one_step_leaves_unclear_passes() -> None:
    profile = a_profile(phases_ms={"forward": 9.0}, target_kind="trace")
    assert profile.phases is not None
    profile = replace(profile, phases=replace(profile.phases, steps=1))
    assert said(profile, a_rule("any", 0.039))["any"].state is State.PASSED


def test_a_rule_says_of_a_trace_what_that_lacks() -> None:
    abstains = Always("any", lambda rule, _: rule.not_applicable("loader", "the program uses none"))
    lacking = Always("any", abstains.says, on_traces="loader: a trace does not hold it")
    assert said(a_profile(target_kind="trace"), abstains)["any"].title == "loader: the program uses none"
    assert said(a_profile(target_kind="trace"), lacking)["any"].title == "loader: a trace does not hold it"
    assert said(a_profile(), lacking)["any"].title == "loader: the program uses none"


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        (a_rule("cause", 0.3, explains=("symptom",)), State.PASSED),
        (a_note("cause", explains=("symptom",)), State.PASSED),
        (a_rule("cause", 0.1, explains=("symptom",)), State.OPPORTUNITY),
        (a_rule("cause", 0.3), State.OPPORTUNITY),
        (a_rule("cause", 0.3, explains=("symptom",), kind=Kind.HEADROOM), State.OPPORTUNITY),
    ],
    ids=["larger", "without a ceiling", "too small", "of something else", "no waste"],
)
def test_a_rule_that_yields_passes_beside_a_waste_that_explains_it(cause: Always, state: State) -> None:
    symptom = a_rule("symptom", 0.4, kind=Kind.HEADROOM, yields=True)
    finding = said(a_profile(), cause, symptom)["symptom"]
    assert finding.state is state
    assert ("`cause` says why" in finding.title) is (state is State.PASSED)


@pytest.mark.parametrize(
    "profile", [a_profile(), a_rich_profile(), a_gpu_profile()], ids=["bare", "rich", "GPU"]
)
def test_no_rule_fails_on_a_profile_and_every_one_is_told_once(profile: Profile) -> None:
    findings = advise(profile, RULES)
    assert sorted(finding.rule for finding in findings) == sorted(RULES)
    assert [finding for finding in findings if finding.state is State.ERROR] == []


@pytest.mark.parametrize(
    ("share", "error", "high"),
    [(0.6, 0.1, 0.762), (0.2, 0.1, 0.3916), (0.02, 0.1, 0.043516), (0.2, 0.9, 0.566), (1.0, 0.1, 1.0)],
)
def test_measured_times_reach_up_to_a_rest_that_becomes_faster(
    share: float, error: float, high: float
) -> None:
    ceiling = a_rule("any").timeline(share, error)
    assert ceiling.share == share
    assert ceiling.high == pytest.approx(high)
    assert ceiling.low == pytest.approx(share * (1 - error))
