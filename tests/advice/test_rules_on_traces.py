"""Which rules judge a trace made elsewhere, and that the others say truly what it lacks."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from trace_builder import Event, a_copy, a_launch, a_node, a_step, a_trace, an_annotation, an_operator

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, State
from advisor.profiles.facts.profile import Profile
from advisor.profiles.traces.reading import read_trace
from advisor.rules import RULES
from advisor.runs.profile_traces import profile_of

RECORDED = Path(__file__).parents[1] / "profiles" / "traces" / "gpu"

JUDGE = {
    "amp_unused", "blocking_copies", "comm_not_worth_it", "contiguous_conv", "created_on_host",
    "device_copies", "double_precision", "explicit_synchronize", "exposed_communication", "fp32_matmul",
    "gathered_weights",
    "idle_device", "indexing_loop", "input_bound",
    "launch_bound", "load_imbalance", "low_overlap", "misaligned_matmul", "needless_checkpointing",
    "optimizer_bound", "single_tensor_optimizer", "small_collectives", "slow_backend", "small_copies",
    "straggler", "sync_points", "unattributed_time", "unfused_attention", "unfused_pointwise",
    "unpinned_copies", "unstable_steps", "zeroed_gradients",
}  # fmt: skip
"""Rules of whose facts a trace holds enough. Every other one says on all traces what they lack."""

FALSE_OF_A_TRACE = (
    "the program uses", "the program does", "the program runs", "this machine", "single process",
    "no steps were", "was not recorded", "was watched", "were watched", "watched run", "clean steps",
    "this system", "is measured on", "running program",
)  # fmt: skip


def a_training_step(at: int, *, slow: float = 1.0) -> list[Event]:
    """A step on a GPU: data, a copy, forward, a value read back, backward with an exchange, an update."""
    begin, number = 10_000.0 * at, 100 * at
    engine = ("1", "2")
    product = ([64, 512], [512, 512])
    return [
        a_step(at, begin, 9_990),
        an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, 2_000 * slow),
        an_operator("aten::to", begin + 4_100, 200, [64, 512]),
        *a_copy("Memcpy HtoD (Pageable -> Device)", begin + 4_110, begin + 4_150, 80, number + 1, 131_072),
        an_operator("aten::mm", begin + 4_400, 200, *product),
        *a_launch("Cijk_gemm", begin + 4_450, begin + 4_500, 700, number + 2),
        an_operator("aten::item", begin + 4_700, 600),
        *a_copy("Memcpy DtoH (Device -> Pageable)", begin + 4_710, begin + 5_210, 5, number + 3, 4),
        a_node("MmBackward0", begin + 5_500, 900, sequence=number, thread=engine),
        an_operator("aten::mm", begin + 5_510, 300, *product, thread=engine),
        *a_launch("gemm", begin + 5_520, begin + 5_600, 900, number + 4),
        *a_launch("ncclDevKernel_AllReduce_Sum_f32", begin + 5_800, begin + 6_500, 600, number + 5),
        an_annotation("Optimizer.zero_grad#AdamW.zero_grad", begin + 7_000, 100),
        an_operator("aten::zero_", begin + 7_010, 80, [512, 512]),
        an_annotation("Optimizer.step#AdamW.step", begin + 7_200, 2_000),
        *(an_operator("aten::add_", begin + 7_210 + 20 * each, 15, [512, 512]) for each in range(9)),
        *a_launch("elementwise_kernel", begin + 7_220, begin + 7_300, 100, number + 6),
    ]  # fmt: skip


def two_ranks() -> Profile:
    fast = a_trace(*(event for at in range(12) for event in a_training_step(at)), rank=0)
    slow = a_trace(*(event for at in range(12) for event in a_training_step(at, slow=1.5)), rank=1)
    fast = replace(fast, info={"deviceProperties": [{"name": "A100", "computeMajor": 8, "computeMinor": 0}]})
    return profile_of([fast, slow], fast)


def on_a_cpu() -> Profile:
    events = [
        event
        for at in range(3)
        for event in (
            a_step(at, 1000.0 * at, 990),
            an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1000.0 * at, 300),
            an_operator("aten::mm", 1000.0 * at + 400, 300, [64, 64], [64, 64]),
        )
    ]
    trace = a_trace(*events)
    return profile_of([trace], trace)


@cache
def findings() -> tuple[Finding, ...]:
    """Of every rule on every trace."""
    profiles = [two_ranks(), on_a_cpu()]
    for path in sorted(RECORDED.glob("*.json.gz")):
        trace = read_trace(path)
        profiles.append(profile_of([trace], trace))
    return tuple(finding for profile in profiles for finding in advise(profile, RULES))


def abstentions() -> dict[str, set[str]]:
    """The list of what abstains on traces: rules with their reasons."""
    listed: dict[str, set[str]] = {}
    for finding in findings():
        if finding.state is State.NOT_APPLICABLE:
            listed.setdefault(finding.rule, set()).add(finding.title)
    return listed


def test_no_rule_fails_on_a_trace() -> None:
    assert [finding for finding in findings() if finding.state is State.ERROR] == []


def test_every_rule_that_a_trace_can_bear_judges_one() -> None:
    judged = {each.rule for each in findings() if each.state is not State.NOT_APPLICABLE}
    assert judged == JUDGE


@pytest.mark.parametrize("rule", sorted(set(RULES) - JUDGE))
def test_every_other_rule_says_what_a_trace_lacks(rule: str) -> None:
    assert abstentions()[rule] == {RULES[rule].on_traces}
    assert ": " in RULES[rule].on_traces


def test_no_reason_is_told_of_a_program_that_was_never_seen() -> None:
    wrong = {
        rule: reason
        for rule, reasons in abstentions().items()
        for reason in reasons
        if any(words in reason for words in FALSE_OF_A_TRACE)
    }
    assert wrong == {}
