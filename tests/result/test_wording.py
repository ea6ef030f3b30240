"""Numbers and sentences: intervals, digits, units, missing values."""

import pytest
from result_builder import a_keep, a_ratio, a_recommendation, a_result, a_trial, an_interval

from advisor.report.next_step import apply_command, next_step
from advisor.report.noise import disturbances
from advisor.result import outlook, wording
from advisor.result.document import Interval, Noise, Rate, Ratio, Untried
from advisor.result.words import CAUSES
from advisor.stages.confirming.confirmation_costs import suggested_budget


def test_a_ratio_carries_its_interval_confidence_and_evidence() -> None:
    assert wording.ratio(a_ratio(1.42, 1.38, 1.46)) == "1.42x (1.38 to 1.46, 99 %, 20 quads in 6 processes)"


def test_one_quad_in_one_process_is_singular() -> None:
    assert wording.evidence(a_ratio(1.4, 1.3, 1.5, 1, 1)) == "99 %, 1 quad in 1 process"


def test_evidence_that_was_not_counted_is_left_out() -> None:
    assert wording.ratio(a_ratio(1.42, 1.38, 1.46, 0, 0)) == "1.42x (1.38 to 1.46, 99 %)"


def test_an_interval_that_holds_one_is_no_clear_difference() -> None:
    assert wording.ratio(a_ratio(1.01, 0.98, 1.05), "throughput") == "no clear difference (0.98 to 1.05)"


def test_an_interval_that_touches_one_is_no_clear_difference() -> None:
    assert wording.short_ratio(a_ratio(1.02, 1.0, 1.05)).startswith("no clear difference")


def test_an_end_that_is_not_one_is_not_rounded_to_one() -> None:
    assert wording.short_ratio(a_ratio(1.4, 1.02, 1.9)) == "1.40x (1.02 to 1.90)"


def test_a_loss_reads_below_one() -> None:
    assert wording.short_ratio(a_ratio(0.714, 0.68, 0.74)) == "0.71x (0.68 to 0.74)"


def test_a_ratio_that_was_not_taken_is_not_measured() -> None:
    assert wording.ratio(None) == "not measured"


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(1.38, 1.46, 2), (1.55, 1.75, 2), (1.2, 1.9, 1), (1.41, 1.413, 3), (2, 9, 0), (100, 900, 0), (5, 5, 2)],
)
def test_digits_follow_the_width_of_the_interval(low: float, high: float, digits: int) -> None:
    assert wording.decimals(low, high) == digits


def test_a_time_carries_its_unit_and_interval() -> None:
    assert wording.interval(Interval(estimate=12.41, low=12.1, high=12.7), "ms") == "12.4 ms (12.1 to 12.7)"


def test_a_rate_carries_its_own_unit() -> None:
    assert (
        wording.rate(Rate(estimate=3.2, low=3.1, high=3.3, unit="steps/s")) == "3.20 steps/s (3.10 to 3.30)"
    )


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [
        (None, "not measured"),
        (0, "not measured"),
        (2**20, "1.0 MiB"),
        (913 * 2**20, "913 MiB"),
        (1, "under 0.1 MiB"),
    ],
)
def test_memory_is_in_mib_and_missing_is_not_zero(bytes_: int | None, text: str) -> None:
    assert wording.mib(bytes_) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.341, "34 %"), (0.018, "1.8 %"), (0.0996, "10 %"), (0, "0 %"), (1, "100 %")]
)
def test_a_share_reads_as_percent(share: float, text: str) -> None:
    assert wording.percent(share) == text


def test_a_trace_of_a_step_is_not_zero() -> None:
    assert wording.share_of(0.0001, 40) == "under 0.1 %"


@pytest.mark.parametrize(("value", "text"), [(3.72, "3.7 s"), (36.4, "36 s"), (412.6, "6 min 53 s")])
def test_durations_read_in_seconds_then_minutes(value: float, text: str) -> None:
    assert wording.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Interval(estimate=1.06, low=1.051, high=1.073), "peak memory +6.0 % (+5.1 to +7.3)"),
        (Interval(estimate=0.8, low=0.7, high=0.9), "peak memory -20 % (-30 to -10)"),
        (Interval(estimate=1.0, low=0.98, high=1.02), "no clear difference in peak memory (0.98 to 1.02)"),
        (None, "peak memory not compared"),
    ],
)
def test_peak_memory_is_told_as_a_change(value: Interval | None, text: str) -> None:
    assert wording.memory(value) == text


def test_the_verdict_of_a_change_holds_interval_memory_and_numbers() -> None:
    assert wording.verdict(a_result()) == (
        "2.09x throughput (2.01 to 2.17, 99 %, 40 quads in 6 processes), peak memory +6.2 % (+5.1 to +7.3), "
        "same numbers within noise."
    )


def test_the_verdict_to_keep_names_the_smallest_difference_that_could_be_seen() -> None:
    assert wording.verdict(a_keep()) == (
        "Keep what you have: no change was confirmed. "
        "The smallest difference that could have been seen is 1.8 %."
    )


def test_a_changed_batch_is_judged_by_goodput() -> None:
    found = a_recommendation(config={**a_recommendation().config, "batch_size": 128})
    assert wording.gain_of(a_result(recommendation=found)) == "goodput"


def test_an_asked_for_objective_names_the_gain() -> None:
    assert wording.gain_of(a_result(objective="memory")) == "less peak memory"


def test_numbers_that_were_not_checked_say_why() -> None:
    found = a_recommendation(numerics="not_checked", numerics_reason="no loss was seen")
    assert wording.numerics(found) == "numbers not checked: no loss was seen"
    reason = "losses of the first 12 steps differ by 0.057 relative" + "; it grows from roundings" * 8
    found = a_recommendation(numerics="within_noise", numerics_reason=reason)
    assert wording.numerics(found).endswith(reason)


def test_contention_and_thread_collapse_are_said_plainly() -> None:
    noise = Noise(
        aa_ratio=a_ratio(1, 0.9, 1.1), smallest_detectable=0.1, contended=True, thread_collapse=True
    )
    said = disturbances(a_result(noise=noise))
    assert [text.split(":")[0] for text in said] == ["The machine was contended", "Thread collapse"]


def test_a_quiet_machine_is_not_worth_a_word() -> None:
    assert disturbances(a_result()) == []


def test_compilation_says_when_it_pays_back() -> None:
    found = a_recommendation(compile_cold_s=38.2, break_even_steps=410)
    said = outlook.pays_back(a_result(recommendation=found))
    assert said == "38 s of compilation the first time, pays back after 410 steps"


def test_only_settings_that_differ_are_listed() -> None:
    now: dict[str, int | str] = {"a": 1, "b": "off"}
    assert wording.differences({"a": 1, "b": "on", "c": 3}, now) == ["b=on", "c=3"]


def test_trials_are_counted_by_state() -> None:
    trials = [a_trial(0), a_trial(1, state="failed", cause="timeout"), a_trial(2, state="pruned")]
    assert wording.states(trials) == "3 trials: 1 complete, 1 dropped early, 1 failed"


def test_user_text_loses_control_direction_and_noncharacters() -> None:
    assert wording.shown("a\x1b[2J\u202eb\ufffe\U0001ffff\nc") == "a[2Jb c"


def test_a_block_keeps_its_lines() -> None:
    assert wording.shown_block("a\r\n    b\x00") == "a\n    b"


def test_every_cause_has_words() -> None:
    assert all((words and words[0].islower()) or words.startswith("advisor") for words in CAUSES.values())


def test_an_exact_interval_keeps_two_decimals() -> None:
    assert wording.interval(an_interval(4.0, spread=0), "ms") == "4.00 ms (4.00 to 4.00)"


def test_confidence_reads_without_float_noise() -> None:
    assert wording.evidence(Ratio(estimate=1, low=1, high=1, confidence=0.999)) == "99.9 %"


def test_clocks_that_disagree_are_told() -> None:
    result = a_result()
    found = result.recommendation.model_copy(update={"cpu_speedup": a_ratio(0.9, 0.89, 0.91)})
    said = disturbances(a_result(recommendation=found))
    assert any("clocks disagree" in text for text in said)


@pytest.mark.parametrize(
    ("command", "applied"),
    [
        (["tune", "train.py"], "advisor apply advisor-report"),
        (["tune", "train.py", "--out", "runs/first"], "advisor apply runs/first"),
        (["tune", "--out=runs/first", "train.py"], "advisor apply runs/first"),
        (["tune", "train.py", "--out", "a", "--out", "my runs"], "advisor apply 'my runs'"),
        (["tune", "train.py", "--", "--out", "models"], "advisor apply advisor-report"),
    ],
)
def test_the_next_step_names_the_folder_of_the_report(command: list[str], applied: str) -> None:
    result = a_result(command=command)
    assert next_step(result).startswith(f"`{applied}` shows the 2 changes as a patch, --write makes them.")


def test_a_folder_that_is_known_goes_before_the_one_of_the_command() -> None:
    assert apply_command(a_result(), "/tmp/elsewhere") == "advisor apply /tmp/elsewhere"


def test_a_name_of_a_folder_cannot_run_anything_in_a_shell() -> None:
    command = apply_command(a_result(command=["tune", "t.py", "--out", "x; rm -rf $HOME"]))
    assert command == "advisor apply 'x; rm -rf $HOME'"


def test_live_objects_are_changed_and_taken_up_again_from_python() -> None:
    target = a_result().target.model_copy(update={"kind": "objects"})
    assert next_step(a_result(target=target)).startswith(
        "`result.apply(model=..., loader_kwargs=..., optimizer=...)` makes the 2 changes here."
    )
    stopped = a_keep(target=target)
    stopped = stopped.model_copy(
        update={"budget": stopped.budget.model_copy(update={"stopped_by": "interrupted"})}
    )
    assert "resume=True goes on with the study" in next_step(stopped)


@pytest.mark.parametrize(
    ("study", "said"), [("train", "with --resume and"), ("train-2", "with --study train-2 --resume and")]
)
def test_a_study_that_is_not_named_after_its_target_is_taken_up_by_its_name(study: str, said: str) -> None:
    target = a_result().target.model_copy(update={"path": "runs/train.py"})
    unsure = a_trial(10, a_ratio(1.1, 0.98, 1.2, instances=2), stage="confirm")
    assert said in next_step(a_keep(target=target, study=study, trials=[unsure]))


def test_times_that_contradict_the_gain_are_said_to_be_of_other_moments() -> None:
    slower = a_trial(10, a_ratio(0.9, 0.88, 0.92), config=a_recommendation().config, stage="confirm")
    said = disturbances(a_result(trials=[slower]))
    assert said == [
        "The pace of the machine changed between the baseline and the confirmation: 1667 and 1500 samples/s "
        "were not measured side by side. The gain was, and holds."
    ]


def test_times_of_another_objective_do_not_contradict_it() -> None:
    slower = a_trial(10, a_ratio(0.9, 0.88, 0.92), config=a_recommendation().config, stage="confirm")
    assert disturbances(a_result(trials=[slower], objective="memory")) == []


def test_memory_that_is_little_is_not_told_as_none() -> None:
    assert wording.mib(5_000) == "under 0.1 MiB"
    assert wording.mib(0.05 * 2**20) == "0.1 MiB"


@pytest.mark.parametrize(
    "measured", [None, a_ratio(3.82, 1.41, 10.4, 4, 1), a_ratio(1.21, 1.07, 1.39, 18, 6)]
)
def test_a_confirmation_that_the_budget_cut_off_is_neither_a_no_nor_the_end(measured: Ratio | None) -> None:
    result = a_keep(trials=[a_trial(3, measured, stage="confirm")])
    result.recommendation.speedup = measured or result.recommendation.speedup
    assert wording.sentence(result) == "No change was confirmed, as the budget ended during the confirmation."
    assert next_step(result).startswith("Run it again with --resume and a longer budget")


def test_a_compilation_that_does_not_pay_needs_no_more_processes() -> None:
    ratio = a_ratio(1.3, 1.25, 1.35, 18, 6)
    sure = a_trial(3, ratio, stage="confirm")
    result = a_keep(trials=[sure])
    result.recommendation.speedup = ratio
    assert wording.is_unfinished(result)
    result.recommendation.reason = f"{wording.UNPAID} within 100 steps"
    assert not wording.is_unfinished(result)


def test_a_confirmation_without_hope_was_not_ended_by_the_budget() -> None:
    result = a_keep(trials=[a_trial(3, a_ratio(0.98, 0.8, 1.2, 4, 4), stage="confirm")])
    assert wording.is_unfinished(result)
    result.recommendation.reason = f"amp=bf16: no clear difference (0.8 to 1.2); {wording.HOPELESS} the 2.0 %"
    assert "as the budget ended" not in wording.sentence(result)
    assert not next_step(result).startswith("Run it again with --resume")


def test_a_confirmation_that_ended_is_not_taken_up_again() -> None:
    result = a_keep(trials=[a_trial(3, a_ratio(1.0, 0.98, 1.02, 24, 6), stage="confirm")])
    assert not wording.is_unfinished(result)
    assert next_step(result).startswith("Nothing to change.")


def test_a_larger_batch_that_was_not_judged_is_no_reason_to_stop() -> None:
    unjudged = Untried(knob="batch_size", reason=f"{wording.UNJUDGED}; give a longer --budget")
    assert next_step(a_keep(not_tried=[unjudged])) == (
        "Run it again with a longer --budget: no time was left to judge a larger batch by goodput."
    )


def test_the_budget_that_could_confirm_what_was_found_comes_next() -> None:
    result = a_keep()
    result.recommendation.reason = (
        f"the best that was found could not be confirmed; {suggested_budget(430)} could"
    )
    assert next_step(result).startswith("Run it again with `--budget 8m`, which could confirm")
    assert wording.sentence(result) == "No change was confirmed, as the budget had no room for it."


def test_a_search_that_the_budget_or_other_load_ended_does_not_say_that_nothing_can_change() -> None:
    result = a_keep()
    result.budget.stopped_by = "budget"
    assert next_step(result).startswith("Nothing that was tried is worth a change.")
    result.recommendation.reason = f"{wording.DISTURBED}; a quieter machine tells more"
    assert next_step(result).startswith("Run it again while less else runs on this machine")
