from dataclasses import replace

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile, a_rich_profile, a_root, an_optimizer

from advisor.base.errors import UsageError
from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile, RunFacts, StepPhases
from advisor.tuners.knob import Config
from advisor.tuners.knobs import KNOBS, malloc
from advisor.tuners.space.space import OF_RANKS, NotTried, Space, build_space

TWO_CPUS = a_machine(cpus_allowed=2, physical_cores=2)


def reason_for(space: Space, knob: str, value: object = None) -> str:
    found = [left.reason for left in space.not_tried if (left.knob, left.value) == (knob, value)]
    assert len(found) == 1, space.not_tried
    return found[0]


def test_everything_that_applies_is_searched_and_the_rest_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(malloc, "_library", lambda *wanted: None)
    space = build_space(KNOBS, a_rich_profile(TWO_CPUS))
    known = {
        "accumulation": [1, 2, 4, 8],
        "activation_memory_budget": ["1.0", "0.7", "0.5", "0.3"],
        "amp": ["off", "bf16"],
        "batch_size": [32, 64, 128, 256, 512, 16, 8],
        "channels_last": ["off", "on"],
        "cpu_affinity": ["none", "cores"],
        "execution": ["eager", "compile", "jit_script", "jit_trace", "jit_hybrid"],
        "gc_freeze": ["off", "freeze", "manual"],
        "in_memory_cache": ["off", "memory"],
        "lr_scaling": ["none", "sqrt"],
        "malloc": ["libc", "libc-tuned"],
        "matmul_precision": ["highest", "medium"],
        "mkldnn": ["on", "off"],
        "multiprocessing_context": ["fork", "forkserver", "spawn"],
        "num_threads": [1, 2],
        "num_workers": [0, 2, 1],
        "omp_wait_policy": ["unset", "passive"],
        "optimizer_implementation": ["default", "fused"],
        "persistent_workers": ["off", "on"],
        "prefetch_factor": [2, 4, 8],
    }
    assert {name: space.choices.get(name) for name in known} == known
    assert space.present == {name: values[0] for name, values in space.choices.items()}
    told = {left.knob for left in space.not_tried}
    unless_named = {name for name, knob in KNOBS.items() if knob.named_only}
    brought = {name for name, knob in KNOBS.items() if knob.follows == "num_workers"}
    elsewhere = {name for name, knob in KNOBS.items() if Unit.STEP not in knob.units}
    assert KNOBS.keys() == space.choices.keys() | told | unless_named | brought | elsewhere | set(OF_RANKS)
    assert reason_for(space, "num_workers", 4).startswith("4 workers that compute 100 % of the time")


def test_on_a_gpu_pinned_memory_and_fp16_join() -> None:
    space = build_space(KNOBS, a_gpu_profile())
    assert space.choices["pin_memory"] == ["off", "on"]
    assert space.choices["amp"] == ["off", "bf16", "fp16"]
    assert "num_threads" not in space.choices


def test_the_placebo_is_tried_only_when_named() -> None:
    assert "placebo" not in build_space(KNOBS, a_rich_profile()).choices
    assert build_space(KNOBS, a_rich_profile(), named={"placebo": None}).choices == {"placebo": ["off", "on"]}


def test_named_knobs_are_the_only_ones() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"amp": None, "num_workers": [0, 2]})
    assert space.choices == {"amp": ["off", "bf16"], "num_workers": [0, 2]}
    assert space.size == 4


def test_a_named_strategy_brings_the_ranks_and_none_of_its_settings() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"strategy": ["single", "ddp"]}, ranks=(2,))
    assert space.choices.keys() == {"strategy", "ranks"}


@pytest.mark.parametrize(
    ("parallel", "why"),
    [
        (None, "it needs strategy=ddp"),
        ("FullyShardedDataParallel", "it needs strategy=ddp"),
        (
            "DistributedDataParallel",
            "the program wraps its model in DistributedDataParallel itself: set it there",
        ),
    ],
)
def test_a_setting_of_a_strategy_says_where_it_is_set_by_a_program_that_is_parallel_itself(
    parallel: str | None, why: str
) -> None:
    profile = a_rich_profile(roots=(a_root(parallel=parallel),))
    space = build_space(KNOBS, profile, named={"gradient_as_bucket_view": None})
    assert space.not_tried == [NotTried("gradient_as_bucket_view", None, why)]


def test_named_values_are_taken_beyond_what_the_knob_proposes() -> None:
    profile = a_rich_profile(a_machine(bf16_speedup=0.5))
    space = build_space(KNOBS, profile, named={"amp": ["fp16", "bf16"], "batch_size": [48]})
    rules = {"lr_scaling": ["none", "sqrt"]}  # go with the batch
    assert space.choices == {"amp": ["off", "fp16"], "batch_size": [32, 48], **rules}
    assert "0.5 times the float32 rate" in reason_for(space, "amp", "bf16")


def test_a_named_present_value_leaves_nothing_to_try() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"num_workers": [0]})
    assert (space.choices, space.not_tried) == (
        {},
        [NotTried("num_workers", 0, "this is the present setting")],
    )


def test_a_named_knob_that_cannot_apply_says_why() -> None:
    space = build_space(KNOBS, a_rich_profile(loader=None), named={"num_workers": [2]})
    assert space.not_tried == [NotTried("num_workers", None, "the program uses no DataLoader")]


def test_an_unknown_knob_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        build_space(KNOBS, a_rich_profile(), named={"bacth_size": None})
    assert raised.value.message == "unknown knob 'bacth_size'"
    assert raised.value.hint == "--knob batch_size, or advisor knobs"


def test_fixing_and_searching_one_knob_contradict() -> None:
    with pytest.raises(UsageError, match="--fix num_workers and --knob num_workers contradict"):
        build_space(KNOBS, a_rich_profile(), named={"num_workers": [2]}, fixed={"num_workers": 0})


def test_a_fixed_knob_is_part_of_the_baseline_and_not_searched() -> None:
    space = build_space(KNOBS, a_rich_profile(), fixed={"num_threads": 2})
    assert space.present["num_threads"] == 2
    assert space.own["num_threads"] == 1
    assert "num_threads" not in space.choices
    assert space.complete({"amp": "bf16"})["num_threads"] == 2


def test_what_is_fixed_is_no_reason_against_changes_elsewhere() -> None:
    profile = a_rich_profile(TWO_CPUS, run=RunFacts(num_threads=1, steps_total=10))
    space = build_space(
        KNOBS, profile, named={"amp": None}, fixed={"num_threads": 64, "execution": "compile"}
    )
    assert space.check({"amp": "bf16"}) is None


def test_a_fixed_value_that_cannot_apply_is_an_error() -> None:
    with pytest.raises(UsageError) as raised:
        build_space(KNOBS, a_rich_profile(), fixed={"pin_memory": "on"})
    assert raised.value.cause == "the model runs on the CPU, so no batch is copied to an accelerator"


def test_a_knob_that_can_gain_less_than_the_noise_is_left_out() -> None:
    phases = StepPhases(10.0, input_wait_ms=0.04, forward_ms=4.0, backward_ms=5.0, optimizer_ms=0.96)
    space = build_space(KNOBS, a_rich_profile(phases=phases), detectable=0.03)
    assert reason_for(space, "num_workers") == (
        "at most 0.4 % of the step could be gained, less than the 3 % that can be told from noise"
    )
    assert "optimizer_implementation" in space.choices
    assert "batch_size" in space.choices


def test_a_named_knob_is_tried_whatever_it_could_gain() -> None:
    phases = StepPhases(10.0, forward_ms=10.0)
    space = build_space(KNOBS, a_rich_profile(phases=phases), named={"num_workers": None}, detectable=0.03)
    assert set(space.choices["num_workers"]) > {0, 1}


def test_a_step_without_known_phases_bounds_nothing() -> None:
    assert "amp" in build_space(KNOBS, a_rich_profile(phases=None), detectable=0.5).choices


def test_the_batch_can_be_kept() -> None:
    space = build_space(KNOBS, a_rich_profile(), keep_batch=True)
    assert not {"batch_size", "lr_scaling"} & space.choices.keys()
    assert reason_for(space, "batch_size") == "the batch size is kept (--keep-batch)"


def test_the_batch_can_be_bounded() -> None:
    space = build_space(KNOBS, a_rich_profile(), max_batch=64)
    assert space.choices["batch_size"] == [32, 64, 16, 8]
    assert reason_for(space, "batch_size", 128) == "more than --max-batch 64"


def test_a_larger_batch_brings_its_learning_rate() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"batch_size": None, "lr_scaling": None})
    assert space.complete({"batch_size": 64}) == {"batch_size": 64, "lr_scaling": "sqrt"}
    assert space.complete({"batch_size": 32}) == {"batch_size": 32, "lr_scaling": "none"}
    assert space.check({"batch_size": 64}) is None
    assert space.check({"batch_size": 64, "lr_scaling": "none"}) is not None


def test_one_change_to_a_complete_configuration_brings_what_belongs_to_it() -> None:
    space = build_space(KNOBS, a_rich_profile())
    larger = space.complete({**space.present, "batch_size": 64})
    assert larger == {**space.present, "batch_size": 64, "lr_scaling": "sqrt"}
    assert space.complete({**larger, "batch_size": 32}) == space.present
    workers = space.complete({**space.present, "num_workers": 1, "prefetch_factor": 8})
    assert workers == {**space.present, "num_workers": 1, "prefetch_factor": 8}
    assert space.complete({**workers, "num_workers": 0}) == space.present


def test_a_named_rule_is_kept_as_it_is_asked_for() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"batch_size": [64], "lr_scaling": ["linear"]})
    assert space.complete({"batch_size": 64}) == {"batch_size": 64, "lr_scaling": "none"}
    both: Config = {"batch_size": 64, "lr_scaling": "linear"}
    assert space.complete(both) == both


def test_other_rules_are_tried_when_named() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"batch_size": [64], "lr_scaling": ["linear", "none"]})
    assert space.choices["lr_scaling"] == ["none", "linear"]
    assert space.check({"batch_size": 64, "lr_scaling": "none"}) is None
    assert space.check({"batch_size": 64, "lr_scaling": "linear"}) is None


def test_a_summed_loss_under_sgd_needs_no_rule() -> None:
    profile = a_rich_profile(optimizers=(an_optimizer("SGD"),), run=RunFacts(sum_reduced_loss=True))
    space = build_space(KNOBS, profile)
    assert "lr_scaling" not in space.choices
    assert "summed over the batch" in reason_for(space, "lr_scaling")
    assert space.check({"batch_size": 64}) is None


def test_without_a_batch_to_change_the_learning_rate_is_not_searched() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"lr_scaling": None})
    assert space.choices == {}
    assert reason_for(space, "lr_scaling", "sqrt").startswith("the batch size is unchanged")


def test_worker_options_alone_are_hopeless_without_workers() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"prefetch_factor": None})
    assert space.choices == {}
    assert reason_for(space, "prefetch_factor", 4) == "prefetch_factor needs num_workers above 0"


def test_the_planned_steps_of_the_user_decide_about_compiling() -> None:
    assert "compile" not in build_space(KNOBS, a_rich_profile(), planned_steps=100).choices["execution"]
    assert "compile" in build_space(KNOBS, a_rich_profile(), planned_steps=100_000).choices["execution"]
    named = build_space(KNOBS, a_rich_profile(), named={"execution": ["compile"]}, planned_steps=100)
    assert named.choices["execution"] == ["eager", "compile"]


def test_a_configuration_against_a_constraint_is_told_why() -> None:
    space = build_space(KNOBS, a_rich_profile(TWO_CPUS))
    assert space.check({"num_workers": 2}) is None
    assert space.check({"num_workers": 2, "num_threads": 2}) is not None
    assert space.check({"prefetch_factor": 8}) == "prefetch_factor needs num_workers above 0"


@pytest.mark.parametrize(
    "profile",
    [
        a_rich_profile(TWO_CPUS, loader=a_loader(num_workers=32, iterable=True, batch_bytes=2**34)),
        a_rich_profile(run=RunFacts(num_threads=999)),
        a_profile(),
    ],
)
def test_the_present_configuration_is_always_allowed(profile: Profile) -> None:
    space = build_space(KNOBS, profile)
    assert space.check({}) is None
    assert space.check(space.present) is None


def test_a_program_that_breaks_a_bound_already_can_still_be_changed_elsewhere() -> None:
    loader = a_loader(num_workers=32, batch_bytes=2**34)
    space = build_space(KNOBS, a_rich_profile(TWO_CPUS, loader=loader))
    assert space.check({"amp": "bf16"}) is None


def test_configurations_that_mean_the_same_are_equal() -> None:
    space = build_space(KNOBS, a_rich_profile())
    assert (
        space.complete({"prefetch_factor": 8})
        == space.complete({"persistent_workers": "on"})
        == space.complete({})
    )
    assert space.complete({"lr_scaling": "sqrt"}) == space.complete({})
    assert space.complete({"batch_size": 64}) == space.complete({"lr_scaling": "sqrt", "batch_size": 64})
    assert space.complete({"num_workers": 1, "prefetch_factor": 8}) != space.complete({"num_workers": 1})
    assert space.complete({"amp": "bf16"}) == {**space.present, "amp": "bf16"}


def test_the_size_counts_all_combinations() -> None:
    space = build_space(KNOBS, a_rich_profile(), named={"amp": None, "num_workers": [0, 2, 1]})
    assert space.size == 6
    assert replace(space, choices={}).size == 1


def test_a_knob_is_not_tried_where_its_own_ceiling_is_below_what_can_be_told() -> None:
    profile = a_rich_profile(run=RunFacts(wall_s=10.0, gc_s=0.01, gc_collections=3))
    space = build_space(KNOBS, profile, detectable=0.02)
    assert "gc_freeze" not in space.choices
    assert "at most 0.1 % of the step" in str(reason_for(space, "gc_freeze"))
    assert "gc_freeze" in build_space(KNOBS, profile, detectable=0.0005).choices
