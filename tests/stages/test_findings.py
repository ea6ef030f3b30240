"""Findings and profiles as they stand in a result."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import a_device, a_gpu_profile, a_loader, a_profile, a_rich_profile, a_window, an_op
from result_builder import a_ceiling, a_profile_result

from advisor.advice.advise import advise
from advisor.advice.finding import Ceiling, Finding, Kind, Outcome, Severity, State
from advisor.profiles.facts.observed import Location, MemoryUse, RankFacts
from advisor.profiles.facts.profile import Profile, RunFacts, StepPhases
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import DeviceTime
from advisor.profiles.facts.replayed import Replays, Share
from advisor.result.document import Ceiling as CeilingData
from advisor.result.document import Finding as FindingData
from advisor.result.document import Interval, Place, schema
from advisor.rules import RULES
from advisor.stages.diagnosing.result_findings import (
    MOST_OPERATORS,
    as_data,
    epoch_s,
    phases_ms,
    profile_summary,
    replays,
    roofline,
)


def a_finding(**fields: Any) -> Finding:
    return Finding("input_bound", Kind.WASTE, State.OPPORTUNITY, **fields)


def converted(**fields: Any) -> FindingData:
    (found,) = as_data([a_finding(**fields)])
    return found


def test_a_step_on_a_device_is_told_as_the_device_spent_it() -> None:
    time = DeviceTime(4.0, 0.3, 0.1, 0.0, 3.6, (("launch", 3.5), ("input", 0.1)))
    found = profile_summary(a_gpu_profile(window=a_window(device=a_device(time=time))))
    assert found.device_ms == {
        "computing": 0.3, "exposed_communication": 0.1, "exposed_copies": 0.0, "idle": 3.6, "total": 4.0,
    }  # fmt: skip
    assert found.idle_ms == {"launch": 3.5, "input": 0.1}
    assert profile_summary(a_profile()).device_ms == {}


def test_every_field_of_a_finding_reaches_the_result() -> None:
    finding = a_finding(
        severity=Severity.HIGH,
        title="41 % of each step waits for data",
        location=Location("train.py", 42, "main"),
        ceiling=Ceiling(0.41, 0.38, 0.44, "replay", of="run"),
        explains="unstable_steps",
        evidence={"input_wait_ms": 4.1},
        advice="Use more workers.",
        knobs=("num_workers", "prefetch_factor"),
        outcome=Outcome.CONFIRMED,
        measured=(1.3, 1.2, 1.4),
        why="",
    )
    assert as_data([finding]) == [
        FindingData(
            rule="input_bound", kind="waste", state="opportunity", severity="high",
            title="41 % of each step waits for data",
            location=Place(file="train.py", line=42, function="main"),
            ceiling=CeilingData.model_validate(a_ceiling(0.41, 0.38, 0.44, of="run")),
            explains="unstable_steps", evidence={"input_wait_ms": 4.1}, advice="Use more workers.",
            knobs=["num_workers", "prefetch_factor"], outcome="confirmed",
            measured=Interval(estimate=1.3, low=1.2, high=1.4),
        )
    ]  # fmt: skip


def test_evidence_of_any_kind_becomes_what_json_can_hold() -> None:
    evidence = {
        "place": Location("a.py", 3), "tuple": (1, (2.5, None)), 4: True, "exact": 1 / 3, "set": {7},
        "nan": float("nan"), "infinite": float("-inf"), "kind": Kind.RISK, "nested": {Kind.RISK: [b"x"]},
    }  # fmt: skip
    assert converted(evidence=evidence).evidence == {
        "place": "a.py:3", "tuple": [1, [2.5, None]], "4": True, "exact": 0.333333, "set": "{7}",
        "nan": None, "infinite": None, "kind": "risk", "nested": {"risk": ["b'x'"]},
    }  # fmt: skip
    json.dumps(converted(evidence=evidence).evidence, allow_nan=False)


def test_paths_below_the_working_folder_are_told_as_seen_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / "src" / "train.py")
    found = converted(
        location=Location(file, 3),
        title=f"waits at {file}:3",
        advice=f"Edit {file}:3, not {tmp_path}x/train.py or /mnt{file}.",
        evidence={"places": [Location(file, 3)], "lines": {f"{file}:3": 0.5}},
    )
    assert found.location is not None and found.location.file == os.path.join("src", "train.py")
    assert found.title == "waits at src/train.py:3"
    assert found.advice == f"Edit src/train.py:3, not {tmp_path}x/train.py or /mnt{file}."
    assert found.evidence == {"places": ["src/train.py:3"], "lines": {"src/train.py:3": 0.5}}


def test_in_the_root_folder_paths_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert converted(advice="see /a/b.py:3").advice == "see /a/b.py:3"


@pytest.mark.parametrize(
    "profile", [a_profile(), a_rich_profile(), a_gpu_profile()], ids=["bare", "rich", "GPU"]
)
def test_what_all_rules_say_fits_the_schema_of_results(profile: Profile) -> None:
    findings = advise(profile, RULES)
    result = a_profile_result(findings=as_data(findings), profile=profile_summary(profile), machine={})
    jsonschema.validate(json.loads(result.to_json()), schema())


def test_a_profile_of_which_nothing_is_known_has_an_empty_summary() -> None:
    found = profile_summary(a_profile())
    assert (found.phases_ms, found.steps, found.epoch_s, found.recording, found.operators) == (
        {},
        0,
        None,
        None,
        [],
    )
    assert (found.memory_bytes, found.replays, found.rates, found.roofline) == ({}, {}, {}, {})


def test_parts_of_a_step_are_told_and_logging_only_where_there_is_some() -> None:
    assert phases_ms(a_profile(phases_ms={"input_wait": 2.0})) == {
        "input_wait": 2.0, "transfer": 0.0, "forward": 0.0, "backward": 0.0, "optimizer": 0.0,
        "communication": 0.0, "sync": 0.0, "other": 0.0,
    }  # fmt: skip
    assert phases_ms(a_profile(phases_ms={"logging": 1.0}))["logging"] == 1.0


def test_an_epoch_takes_as_many_steps_as_its_samples_need() -> None:
    profile = a_rich_profile(loader=a_loader(dataset_length=3200))
    assert epoch_s(profile) == pytest.approx(1.0)  # 100 steps of 32 samples, 10 ms each
    assert epoch_s(profile, step_s=0.005) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "facts",
    [{"loader": None}, {"loader": a_loader(dataset_length=None)}, {"run": RunFacts()}, {"phases": None}],
    ids=["no loader", "unknown length", "unknown samples", "no steps"],
)
def test_an_epoch_of_unknown_length_is_not_guessed(facts: dict[str, Any]) -> None:
    assert epoch_s(a_rich_profile(**facts)) is None


def test_replays_are_told_by_name_and_refusals_with_their_reason() -> None:
    found = Replays(loader_free=Share(0.4, 0.36, 0.44), refused=(("optimizer_off", "it takes a closure"),))
    assert replays(found) == {"loader_free": Interval(estimate=0.4, low=0.36, high=0.44)}
    assert profile_summary(a_profile(replays=found)).replays_refused == {
        "optimizer_off": "it takes a closure"
    }


def test_the_operators_with_the_largest_self_time_are_kept() -> None:
    ops = [an_op(f"aten::op{number}", self_ms=float(number)) for number in range(60)]
    found = profile_summary(a_profile(window=a_window(*ops))).operators
    assert [op.name for op in found] == [f"aten::op{number}" for number in range(59, 59 - MOST_OPERATORS, -1)]


def test_memory_that_was_not_measured_is_left_out() -> None:
    memory = MemoryUse(host_peak_bytes=5, parameter_bytes=3, activation_bytes=0)
    assert profile_summary(a_profile(memory=memory)).memory_bytes == {
        "parameter": 3,
        "activation": 0,
        "host_peak": 5,
    }


def test_ranks_are_told_with_their_parts() -> None:
    rank = RankFacts(rank=1, step_ms=9.0, phases_ms=(("forward", 3.0),))
    assert profile_summary(a_profile(ranks=(rank,))).ranks == [{"rank": 1, "step_ms": 9.0, "forward": 3.0}]


def test_ranks_are_told_with_what_they_computed_and_exchanged() -> None:
    rank = RankFacts(rank=0, step_ms=9.0, compute_ms=5.0, exposed_ms=2.0, wait_ms=0.0, backend="gloo")
    assert profile_summary(a_profile(ranks=(rank,))).ranks == [
        {"rank": 0, "step_ms": 9.0, "compute_ms": 5.0, "exposed_ms": 2.0, "backend": "gloo"}
    ]


RATES = Rates(matmul=(("float32", 1e9), ("bfloat16", 4e9)), memory_sequential=1e9)


def test_the_roofline_is_the_time_at_full_speed_over_the_time_taken() -> None:
    window = a_window(
        an_op(self_ms=4.0, flops=1e6, calls=2.0), an_op(self_ms=6.0, flops=4e6, dtype="bfloat16")
    )  # 2 ms of float32 and 1 ms of bfloat16 at full speed, in 10 ms
    assert roofline(a_profile(window=window, rates=RATES)) == {"flops": pytest.approx(0.3)}


def test_the_roofline_of_memory_counts_the_bytes_of_every_call() -> None:
    window = a_window(an_op(self_ms=10.0, bytes=1e6, calls=5.0))
    assert roofline(a_profile(window=window, rates=RATES)) == {"memory": pytest.approx(0.5)}


@pytest.mark.parametrize(
    "facts",
    [
        {"rates": RATES},
        {"window": a_window(an_op(flops=1e6))},
        {"window": a_window(an_op(flops=1e6), compute_ms=0.0), "rates": RATES},
        {"window": a_window(an_op()), "rates": RATES},
        {"window": a_window(an_op(flops=1e6, dtype="float64")), "rates": RATES},
    ],
    ids=["no window", "no rates", "no compute", "no formula", "a rate that was not measured"],
)
def test_without_work_or_a_measured_limit_no_roofline_is_told(facts: dict[str, Any]) -> None:
    assert roofline(a_profile(**facts)) == {}


def test_steps_and_overheads_are_those_of_the_profile() -> None:
    found = profile_summary(
        a_profile(phases=StepPhases(step_ms=10.0, steps=17), watching=0.004, window=a_window(an_op())),
        summary="what was found",
        notes=["a note"],
    )
    assert (found.steps, found.overhead, found.summary, found.notes) == (
        17,
        0.004,
        "what was found",
        ["a note"],
    )
    assert found.recording is not None and found.recording.overhead == 0.05
