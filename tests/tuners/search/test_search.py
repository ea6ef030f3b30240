"""The stages of a search, over a scripted machine."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from scripted_search import a_search

from advisor.tuners.knob import Value
from advisor.tuners.search.measured import Measured
from advisor.tuners.search.measuring import BudgetSpent
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot, SlotMeasured

AMP: dict[str, list[Value]] = {"amp": ["off", "bf16"], "optimizer_implementation": ["default", "fused"]}
SERVED: dict[str, list[Value]] = {"runtime": ["torch", "onnxruntime"]}


def test_each_helpful_knob_ends_in_the_incumbent() -> None:
    search, _, _ = a_search(
        lambda c: (
            (1.5 if c["amp"] == "bf16" else 1) * (1.2 if c["optimizer_implementation"] == "fused" else 1)
        ),
        AMP,
    )
    assert search.run(None) == {"amp": "bf16", "optimizer_implementation": "fused"}
    assert search.score == pytest.approx(math.log(1.8), abs=0.01)


def test_a_harmful_knob_is_left_at_its_present_setting() -> None:
    search, _, _ = a_search(lambda c: 0.77 if c["amp"] == "bf16" else 1.0, AMP)
    assert search.run(None) == {"amp": "off", "optimizer_implementation": "default"}


def test_a_gain_that_needs_two_knobs_together_is_found() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        fused, bf16 = config["optimizer_implementation"] == "fused", config["amp"] == "bf16"
        return 2.0 if fused and bf16 else 1.3 if fused else 0.99 if bf16 else 1.0

    search, _, _ = a_search(speed, AMP)
    assert search.run(None) == {"amp": "bf16", "optimizer_implementation": "fused"}


def test_no_configuration_is_measured_twice() -> None:
    search, _, kept = a_search(lambda c: 1.0, AMP)
    search.run(None)
    tried = [tuple(sorted(trial.config.items())) for trial in kept.trials]
    assert len(tried) == len(set(tried)) == 3


def test_what_an_earlier_part_of_the_study_measured_is_not_measured_again() -> None:
    first, _, kept = a_search(lambda c: 1.0, AMP)
    first.run(None)
    known = {
        trial.config: [trial.against_baseline.estimate]
        for trial in kept.trials
        if trial.against_baseline is not None
    }
    again, arena, _ = a_search(lambda c: 1.0, AMP, measured=Measured(known))
    again.run(None)
    assert arena.measured == []


def test_the_number_of_trials_bounds_the_search() -> None:
    search, _, kept = a_search(lambda c: 1.0, AMP, max_trials=2)
    search.run(None)
    assert (len(kept.trials), search.stopped_by) == (1, "trials")


def test_a_larger_value_of_what_ran_out_of_memory_is_not_tried() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        if int(config["batch_size"]) >= 128:
            raise TrialFailed(Failure("oom_host", "DefaultCPUAllocator: can't allocate memory"))
        return 1.0

    search, arena, kept = a_search(speed, {"batch_size": [64, 128, 256, 512]})
    search.run(None)
    assert {trial.config["batch_size"] for trial in kept.trials} == {128}
    assert kept.trials[0].cause == "oom_host"
    assert {config["batch_size"] for config in arena.measured} == {128}


def test_failures_in_a_row_end_the_search_with_what_is_valid() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        if config["batch_size"] != 64:
            raise TrialFailed(Failure("user_error", "ValueError: no"))
        return 1.0

    search, _, kept = a_search(speed, {"batch_size": [64, 128, 256, 512, 1024, 2048, 4096]})
    assert search.run(None) == {"batch_size": 64}
    assert search.stopped_by == "failures"
    assert len(kept.trials) == 5


def test_what_failed_by_itself_is_not_tried_again() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        if config["amp"] == "bf16":
            raise TrialFailed(Failure("user_error", "ValueError: no"))
        return 1.0

    search, arena, kept = a_search(speed, AMP)
    search.run(None)
    failed = [tuple(trial.config.items()) for trial in kept.trials if trial.state == "failed"]
    assert len(failed) == len(set(failed)) == 2
    assert len([config for config in arena.measured if config["amp"] == "bf16"]) == 2


@pytest.mark.parametrize(
    ("failure", "times"),
    [
        (Failure("killed", "ended by SIGTERM from outside"), 2),
        (Failure("device_error", "RuntimeError: CUDA error: no CUDA-capable device is detected"), 2),
        (Failure("device_error", "RuntimeError: CUDA error: device-side assert triggered"), 1),
        (Failure("oom_host", "killed, likely out of memory"), 1),
        (Failure("user_error", "ValueError: no"), 1),
    ],
    ids=lambda value: value.cause if isinstance(value, Failure) else str(value),
)
def test_what_came_from_outside_alone_is_measured_once_more(failure: Failure, times: int) -> None:
    def speed(config: Mapping[str, Value]) -> float:
        if config["amp"] == "bf16":
            raise TrialFailed(failure)
        return 1.0

    search, arena, kept = a_search(speed, {"amp": ["off", "bf16"]})
    assert search.run(None) == {"amp": "off"}
    assert len(arena.measured) == times
    assert [(trial.state, trial.cause) for trial in kept.trials] == [("failed", failure.cause)]
    assert search.next_number == 2


def test_a_trial_that_was_cut_off_once_is_kept_as_what_it_is_and_says_so() -> None:
    cut_off = iter([True])

    def speed(config: Mapping[str, Value]) -> float:
        if config["amp"] == "bf16" and next(cut_off, False):
            raise TrialFailed(Failure("killed", "ended by SIGTERM from outside"))
        return 1.5 if config["amp"] == "bf16" else 1.0

    search, _, kept = a_search(speed, {"amp": ["off", "bf16"]})
    assert search.run(None) == {"amp": "bf16"}
    (trial,) = kept.trials
    assert trial.state == "complete"
    assert trial.marks == ["measured once more: killed, ended by SIGTERM from outside"]


def test_a_refusal_is_neither_a_trial_nor_a_failure() -> None:
    search, arena, kept = a_search(lambda c: 1.0, {"amp": ["off", "bf16"]})

    def refusing(sessions: Any, configs: Any, quads: int, deadline: float, by_work: bool = False) -> Any:
        message = SlotMeasured(refused={"amp": "autocast is on already"})
        return [0.3] * quads, ([], [Slot((0.1,))]), (SlotMeasured(), message)

    arena.quads = refusing  # type: ignore[method-assign]
    assert search.run(None) == {"amp": "off"}
    assert kept.trials == []
    assert [(entry.knob, entry.reason) for entry in search.not_tried] == [("amp", "autocast is on already")]


def test_what_was_found_before_the_budget_ended_is_kept() -> None:
    time_now = [0.0]

    def speed(config: Mapping[str, Value]) -> float:
        time_now[0] += 0.5
        return 2.0 if config["num_threads"] == 2 else 1.0

    search, _, _ = a_search(speed, {"num_threads": [1, 2, 3, 4]}, clock=lambda: time_now[0])
    search.deadline = 0.6
    assert search.run(None) == {"num_threads": 2}
    assert search.stopped_by == "budget"


@pytest.mark.parametrize(("gain", "tried"), [(1.0, {2, 3, 4}), (2.0, {2})])
def test_time_for_a_confirmation_is_kept_only_where_something_is_to_be_confirmed(
    gain: float, tried: set[int]
) -> None:
    time_now = [0.0]

    def speed(config: Mapping[str, Value]) -> float:
        time_now[0] += 0.5
        return gain if config["num_threads"] == 2 else 1.0

    search, arena, _ = a_search(speed, {"num_threads": [1, 2, 3, 4]}, clock=lambda: time_now[0])
    search.deadline, search.latest = 0.6, math.inf
    search.begin_by = lambda config, score: -math.inf
    search.run(None)
    assert {config["num_threads"] for config in arena.measured} - {1} == tried


def test_what_came_near_the_best_meets_it_once_more() -> None:
    speeds = {1: 1.0, 2: 1.1, 3: 1.26, 4: 1.3}
    search, arena, _ = a_search(lambda c: speeds[int(c["num_threads"])], {"num_threads": [1, 2, 3, 4]})
    assert search.run(None) == {"num_threads": 4}
    tried = [config["num_threads"] for config in arena.measured]
    assert tried.count(3) > tried.count(2)  # two was clearly worse


def test_findings_are_answered_together_first() -> None:
    priorities = {"amp": 0.3, "optimizer_implementation": 0.2}
    search, arena, kept = a_search(lambda c: 1.5 if c["amp"] == "bf16" else 1.0, AMP, priorities=priorities)
    search.run(None)
    assert kept.trials[0].config == {"amp": "bf16", "optimizer_implementation": "fused"}
    assert kept.trials[0].stage == "search"
    assert arena.measured[0] == kept.trials[0].config


def test_a_single_finding_needs_no_trial_of_its_own() -> None:
    search, _, kept = a_search(lambda c: 1.0, AMP, priorities={"amp": 0.3})
    search.run(None)
    assert kept.trials[0].config == {"amp": "bf16", "optimizer_implementation": "default"}


def test_what_usually_gives_more_for_its_seconds_comes_first() -> None:
    choices: dict[str, list[Value]] = {
        "flush_denormal": ["off", "on"],
        "execution": ["eager", "compile"],
        "num_threads": [1, 2],
    }
    search, arena, _ = a_search(lambda c: 1.0, choices)
    search.run(None)
    first = [next(name for name in choices if config[name] != choices[name][0]) for config in arena.measured]
    assert list(dict.fromkeys(first)) == ["num_threads", "flush_denormal", "execution"]


def test_threads_are_tried_again_when_a_step_does_more() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        more = 2.0 if config["batch_size"] == 64 else 1.0
        return more * (1.3 if config["num_threads"] == 2 and more > 1 else 1.0)

    search, _, _ = a_search(speed, {"num_threads": [1, 2], "batch_size": [16, 64]})
    assert search.run(None) == {"num_threads": 2, "batch_size": 64}


def test_a_pair_of_which_neither_gains_alone_is_tried_together() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        return 1.6 if config["amp"] == "bf16" and config["batch_size"] == 64 else 1.0

    search, _, kept = a_search(speed, {"amp": ["off", "bf16"], "batch_size": [16, 32, 64, 128]})
    assert search.run(None) == {"amp": "bf16", "batch_size": 64}
    both = [trial.config for trial in kept.trials if trial.config["amp"] == "bf16"]
    assert both.index(Configuration({"amp": "bf16", "batch_size": 64})) <= 1  # before the joint proposals


def test_workers_are_tried_again_beside_a_larger_batch() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        large = config["batch_size"] == 64
        return (1.5 if large else 1.0) * (1.3 if large and config["num_workers"] == 1 else 1.0)

    search, _, _ = a_search(speed, {"num_workers": [0, 1], "batch_size": [16, 64]})
    assert search.run(None) == {"num_workers": 1, "batch_size": 64}


def test_the_best_meet_once_more_also_where_the_budget_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lucky = [1.32]

    def speed(config: Mapping[str, Value]) -> float:
        at_first = config["num_threads"] == 2 and lucky
        return lucky.pop() if at_first else {1: 1.0, 2: 1.1, 3: 1.3}[int(config["num_threads"])]

    search, _, _ = a_search(speed, {"num_threads": [1, 2, 3]})

    def explore() -> None:
        search._screen("num_threads")
        raise BudgetSpent("budget")

    monkeypatch.setattr(search, "_explore", explore)
    assert search.run(None) == {"num_threads": 3}
    assert search.stopped_by == "budget"


def test_time_for_the_last_race_is_kept_from_exploring() -> None:
    time_now = [0.0]

    def speed(config: Mapping[str, Value]) -> float:
        time_now[0] += 0.5
        return 1.0 + 0.01 * math.log2(float(str(config["batch_size"])))

    sizes: list[Value] = [2**power for power in range(20)]
    search, _, _ = a_search(speed, {"batch_size": sizes}, clock=lambda: time_now[0])
    search.deadline = 20.0
    search.run(None)
    assert search.stopped_by == "budget" and 18.0 <= time_now[0] <= 21.0


def test_stored_scores_count_where_the_budget_ends_the_search() -> None:
    search, _, _ = a_search(lambda c: 1.0, AMP)
    best: dict[str, Value] = {"amp": "bf16", "optimizer_implementation": "fused"}
    search.measured = Measured({Configuration(best): [0.5]})
    search.deadline = search.latest = -1.0
    assert search.run(None) == best


def test_knobs_that_interact_are_tried_again_beside_a_batch_that_was_added_later() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        large = config["batch_size"] == 64
        return (2.0 if large else 1.0) * (1.4 if large and config["amp"] == "bf16" else 1.0)

    search, _, _ = a_search(speed, AMP, also={"batch_size": 16})
    nominee = search.run(None)
    assert nominee["amp"] == "off"
    larger = nominee.with_({"batch_size": 64})
    assert search.screen_at(larger, math.log(2.0), -1.0) == larger  # no time is left
    assert search.screen_at(larger, math.log(2.0), math.inf) == {**larger, "amp": "bf16"}
    assert search.score == pytest.approx(math.log(2.8), abs=0.01)
    known = search.study.get_trials()  # of what is searched, which the batch is not
    search.screen_at(larger.with_({"optimizer_implementation": "fused"}), 0.5, math.inf)
    assert len(search.study.get_trials()) == len(known)


def test_a_batch_that_ran_out_of_memory_alone_is_tried_with_what_saves_it() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        if int(config["batch_size"]) >= 128 and config["amp"] == "off":
            raise TrialFailed(Failure("oom_device", "CUDA out of memory"))
        return 2.0 if config["batch_size"] == 128 else 1.0

    search, arena, _ = a_search(speed, {"amp": ["off", "bf16"], "batch_size": [64, 128, 256]})
    assert search.run(None) == {"amp": "bf16", "batch_size": 128}
    assert {"amp": "off", "batch_size": 256} not in arena.measured


def test_values_that_each_process_makes_for_long_come_after_what_is_quick() -> None:
    choices: dict[str, list[Value]] = {
        "quantization": ["none", "int8_dynamic", "int8_static"],
        "runtime": ["torch", "onnxruntime", "aot_inductor"],
        "channels_last": ["off", "on"],
    }
    search, arena, _ = a_search(lambda config: 1.0, choices)
    search.run(None)
    first = [next(name for name in choices if config[name] != choices[name][0]) for config in arena.measured]
    assert set(first[:3]) == choices.keys()
    made = [config["quantization"] == "int8_static" or config["runtime"] == "aot_inductor"
            for config in arena.measured]  # fmt: skip
    assert made.index(True) >= 3


def test_what_the_best_excludes_is_raced_against_it_without_what_excludes_it() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        return (1.2 if config["amp"] == "bf16" else 1.0) * (
            1.5 if config["runtime"] == "onnxruntime" else 1.0
        )

    search, _, _ = a_search(speed, {"amp": ["off", "bf16"], "runtime": ["torch", "onnxruntime"]})
    assert search.run(None) == {"amp": "off", "runtime": "onnxruntime"}


def test_a_form_has_to_gain_more_than_the_noise_of_a_look() -> None:
    def found(gain: float) -> Value:
        search, _, _ = a_search(lambda c: gain if c["runtime"] != "torch" else 1.0, SERVED)
        return search.run(None)["runtime"]

    assert (found(1.03), found(1.1)) == ("torch", "onnxruntime")


@pytest.mark.parametrize(("left_s", "taken"), [(120.0, False), (1200.0, True)])
def test_what_each_start_makes_for_long_has_to_be_worth_that_in_what_is_left(
    left_s: float, taken: bool
) -> None:
    served: dict[str, list[Value]] = {"runtime": ["torch", "aot_inductor"]}
    search, _, _ = a_search(lambda c: 1.12 if c["runtime"] != "torch" else 1.0, served)
    search.deadline, search.latest, search.clock = left_s, 0.0, lambda: 0.0
    assert (search.run(None)["runtime"] == "aot_inductor") is taken
