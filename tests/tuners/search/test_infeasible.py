"""What a failure for want of memory teaches about other configurations."""

from typing import Any

import pytest

from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.infeasible import SAVERS, TooMuch

PRESENT: dict[str, Value] = {
    "batch_size": 64, "num_workers": 0, "prefetch_factor": 2, "accumulation": 1, "amp": "off",
    "activation_checkpointing": "none", "activation_memory_budget": "1.0", "num_threads": 2,
}  # fmt: skip
INCUMBENT = PRESENT | {"num_workers": 2}


def a_config(**changed: Value) -> dict[str, Value]:
    return INCUMBENT | changed


def taught(failed: dict[str, Value], cause: Any = "oom_device", beside: Any = None) -> TooMuch:
    """What is known after one failure."""
    learnt = TooMuch(PRESENT)
    learnt.learn(failed, cause, beside or INCUMBENT)
    return learnt


@pytest.mark.parametrize(("batch", "fails"), [(128, False), (256, True), (512, True)])
def test_an_out_of_memory_at_a_batch_rules_out_it_and_larger_ones(batch: int, fails: bool) -> None:
    learnt = taught(a_config(batch_size=256))
    assert learnt.holds(a_config(batch_size=batch, num_workers=0), INCUMBENT) is fails


def test_what_the_incumbent_runs_with_is_not_to_blame() -> None:
    learnt = taught(a_config(batch_size=256, accumulation=4))
    assert not learnt.holds(a_config(num_threads=1), INCUMBENT)
    assert not learnt.holds(a_config(num_workers=4), INCUMBENT)


def test_accumulation_saves_memory_and_is_never_too_much() -> None:
    learnt = taught(a_config(batch_size=256, accumulation=4))
    assert not learnt.holds(a_config(accumulation=8), INCUMBENT)
    assert learnt.holds(a_config(batch_size=256, accumulation=2), INCUMBENT)
    assert not learnt.holds(a_config(batch_size=256, accumulation=8), INCUMBENT)


@pytest.mark.parametrize(
    "saver",
    [{"amp": "bf16"}, {"activation_checkpointing": "blocks"}, {"activation_memory_budget": "0.5"}],
    ids=lambda saver: next(iter(saver)),
)
def test_a_batch_that_failed_may_be_tried_with_what_saves_memory(saver: dict[str, Value]) -> None:
    assert not taught(a_config(batch_size=256)).holds(a_config(batch_size=256, **saver), INCUMBENT)
    assert taught(a_config(batch_size=256, **saver)).holds(a_config(batch_size=256), INCUMBENT)


def test_a_smaller_budget_saves_more() -> None:
    learnt = taught(a_config(batch_size=256, activation_memory_budget="0.5"))
    assert learnt.holds(a_config(batch_size=256, activation_memory_budget="0.7"), INCUMBENT)
    assert not learnt.holds(a_config(batch_size=256, activation_memory_budget="0.3"), INCUMBENT)


def test_without_what_the_incumbent_saves_its_batch_is_too_much() -> None:
    incumbent = a_config(batch_size=256, amp="bf16")
    learnt = taught(a_config(batch_size=256), beside=incumbent)
    assert learnt.holds(a_config(batch_size=512), incumbent)
    assert not learnt.holds(a_config(batch_size=256, amp="bf16", num_threads=1), incumbent)


def test_numbers_that_were_raised_together_are_too_much_together() -> None:
    learnt = taught(a_config(num_workers=8, prefetch_factor=8), "shm_full")
    assert learnt.holds(a_config(num_workers=16, prefetch_factor=8), INCUMBENT)
    assert not learnt.holds(a_config(num_workers=8), INCUMBENT)


def test_what_speaks_against_the_incumbent_too_was_wrong() -> None:
    learnt, incumbent = taught(a_config(batch_size=256)), a_config(batch_size=512)
    assert not learnt.holds(incumbent | {"num_workers": 4}, incumbent)


def test_other_failures_teach_nothing_about_size() -> None:
    assert not taught(a_config(batch_size=256), "user_error").holds(a_config(batch_size=256), INCUMBENT)


def test_a_failure_without_raised_numbers_bars_nothing_else() -> None:
    assert not taught(a_config(amp="bf16")).holds(a_config(amp="bf16", num_threads=1), INCUMBENT)


@pytest.mark.parametrize("name", SAVERS)
def test_what_saves_no_memory_is_a_setting_of_the_knob(name: str) -> None:
    assert SAVERS[name] in KNOBS[name].values()
