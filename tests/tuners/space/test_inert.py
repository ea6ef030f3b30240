"""Knobs that do nothing beside the others of a configuration, and values that nothing can help."""

from typing import Any

import pytest
from builders import a_loader, a_machine, a_rich_profile, a_root

from advisor.profiles.facts.profile import MemoryUse, Profile, RunFacts
from advisor.tuners.knob import Config, Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space, build_space

NAMES = ("activation_memory_budget", "compile_region", "dynamic", "execution", "num_threads")


def blocks_of_varying_shape(**facts: Any) -> Profile:
    return a_rich_profile(
        roots=(a_root(repeated_blocks=4),), loader=a_loader(shapes_vary=True), memory=None, **facts
    )


def a_space(*more: str, profile: Profile | None = None, **named: Any) -> Space:
    named = {**dict.fromkeys((*NAMES, *more)), **named}
    return build_space(KNOBS, profile or blocks_of_varying_shape(), named=named)


@pytest.mark.parametrize(
    ("name", "value"), [("dynamic", "on"), ("compile_region", "blocks"), ("activation_memory_budget", "0.5")]
)
def test_how_to_compile_goes_back_where_nothing_is_compiled(name: str, value: str) -> None:
    space = a_space("batch_size")
    compiled: Config = {"execution": "compile", name: value}
    assert space.complete(compiled) == {**space.present, **compiled}
    assert space.complete({name: value}) == space.present
    assert space.complete({**space.complete(compiled), "execution": "eager"}) == space.present
    assert space.complete(compiled) != space.complete({"execution": "compile"})
    assert space.without(space.complete(compiled), "execution") == space.present


def test_how_to_compile_stays_where_the_baseline_is_compiled() -> None:
    profile = blocks_of_varying_shape()
    space = build_space(KNOBS, profile, named={"dynamic": None}, fixed={"execution": "compile"})
    assert space.complete({"dynamic": "on"})["dynamic"] == "on"
    assert space.check({"dynamic": "on"}) is None


def test_waiting_goes_back_with_a_single_thread() -> None:
    space = a_space("omp_wait_policy")
    assert space.complete({"omp_wait_policy": "passive"}) == space.present
    two: Config = {"omp_wait_policy": "passive", "num_threads": 2}
    assert space.complete(two) == {**space.present, **two}


def test_waiting_that_is_fixed_is_no_reason_against_a_single_thread() -> None:
    profile = a_rich_profile(a_machine(cpus_allowed=2, physical_cores=2), run=RunFacts(num_threads=2))
    fixed: Config = {"omp_wait_policy": "passive"}
    space = build_space(KNOBS, profile, named={"num_threads": None}, fixed=fixed)
    assert space.choices["num_threads"] == [2, 1]
    assert space.check(space.complete({"num_threads": 1})) is None


def test_each_is_searched_beside_what_it_needs() -> None:
    space = a_space("batch_size", "omp_wait_policy")
    assert space.choices["dynamic"] == ["auto", "on", "off"]
    assert space.choices["compile_region"] == ["model", "blocks"]
    assert space.choices["activation_memory_budget"] == ["1.0", "0.7", "0.5", "0.3"]
    assert space.choices["omp_wait_policy"] == ["unset", "passive"]


def reason_for(space: Space, knob: str, value: object) -> str:
    return next(left.reason for left in space.not_tried if (left.knob, left.value) == (knob, value))


def test_alone_each_is_hopeless_and_says_why() -> None:
    profile = blocks_of_varying_shape()
    alone = build_space(KNOBS, profile, named={"dynamic": None, "omp_wait_policy": None})
    assert alone.choices == {}
    assert reason_for(alone, "dynamic", "on") == "dynamic needs an execution that compiles"
    assert reason_for(alone, "omp_wait_policy", "passive") == "omp_wait_policy acts on two threads or more"
    small = build_space(KNOBS, profile, named={"activation_memory_budget": None, "execution": None})
    assert "memory is not short" in reason_for(small, "activation_memory_budget", "0.5")


def test_short_memory_lets_the_budget_be_tried_at_the_present_batch() -> None:
    profile = blocks_of_varying_shape()
    full = a_rich_profile(
        a_machine(memory_bytes=2**30), roots=profile.roots, loader=profile.loader,
        memory=MemoryUse(host_peak_bytes=2**30 - 1), run=RunFacts(num_threads=1),
    )  # fmt: skip
    space = a_space(profile=full)
    assert space.check({"execution": "compile", "activation_memory_budget": "0.5"}) is None


def test_the_budget_is_not_tried_beside_recomputed_blocks() -> None:
    space = a_space(
        activation_memory_budget=["0.5"], activation_checkpointing=["blocks"], execution=["compile"]
    )
    config: Config = {"execution": "compile", "activation_memory_budget": "0.5"}
    assert space.check(config) is None
    assert "excludes activation_checkpointing" in str(
        space.check({**config, "activation_checkpointing": "blocks"})
    )


def test_micro_batches_come_with_a_larger_batch() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"accumulation": None, "batch_size": None})
    assert space.choices["accumulation"] == [1, 2, 4, 8]
    assert "the batch is no larger" in str(space.check({"accumulation": 2}))
    assert space.check({"accumulation": 2, "batch_size": 64}) is None
    named = build_space(KNOBS, a_rich_profile(), named={"accumulation": [2]})
    assert named.choices == {"accumulation": [1, 2]}


@pytest.mark.parametrize(
    ("runtime", "stays"), [("onnxruntime", False), ("aot_inductor", True), ("torch", True)]
)
def test_how_torch_computes_a_model_goes_back_where_a_runtime_has_kernels_of_its_own(
    runtime: str, stays: bool
) -> None:
    choices: dict[str, list[Value]] = {
        "runtime": ["torch", "onnxruntime", "aot_inductor"], "channels_last": ["off", "on"],
        "mkldnn": ["on", "off"],
    }  # fmt: skip
    present = Configuration({name: values[0] for name, values in choices.items()})
    space = Space(present, present, choices, [], blocks_of_varying_shape())
    torch_s = {"channels_last": "on", "mkldnn": "off"}
    found = space.complete({"runtime": runtime, **torch_s})
    assert found == present.with_({"runtime": runtime, **(torch_s if stays else {})})
