from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile, a_rich_profile, a_root, an_optimizer

from advisor.profiles.facts.profile import MemoryUse, OptimizerFacts, Profile, RunFacts
from advisor.tuners.knob import Config
from advisor.tuners.space import constraints

TWO_CPUS = a_machine(cpus_allowed=2, physical_cores=2)
MEGABYTE = 2**20


def with_loader(**facts: object) -> Profile:
    return a_profile(TWO_CPUS, loader=a_loader(**facts), run=RunFacts(num_threads=1))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"num_workers": 0, "prefetch_factor": 4}, "prefetch_factor needs num_workers above 0"),
        ({"num_workers": 0, "persistent_workers": "on"}, "persistent_workers needs num_workers above 0"),
        ({"prefetch_factor": 4}, "prefetch_factor needs num_workers above 0"),
        ({"num_workers": 1, "prefetch_factor": 4, "persistent_workers": "on"}, None),
        ({"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off"}, None),
    ],
)
def test_worker_options_need_workers(config: Config, reason: str | None) -> None:
    assert constraints.worker_options_need_workers(config, with_loader()) == reason


def test_a_program_that_loses_its_workers_may_keep_their_options() -> None:
    profile = with_loader(num_workers=2, prefetch_factor=4, persistent_workers=True)
    config: Config = {"num_workers": 0, "prefetch_factor": 4, "persistent_workers": "on"}
    assert constraints.worker_options_need_workers(config, profile) is None


def test_four_workers_per_cpu_are_the_most() -> None:
    assert constraints.few_workers_per_cpu({"num_workers": 8}, with_loader()) is None
    assert (
        constraints.few_workers_per_cpu({"num_workers": 9}, with_loader())
        == "num_workers is 9 but 2 CPUs allow 8"
    )
    assert constraints.few_workers_per_cpu({"num_workers": 12}, with_loader(num_workers=12)) is None


def test_threads_beyond_the_cpus_only_wait() -> None:
    assert constraints.threads_fit_the_cpus({"num_threads": 2}, with_loader()) is None
    reason = constraints.threads_fit_the_cpus({"num_threads": 3}, with_loader())
    assert reason == "num_threads is 3 but this process may use 2 CPUs"


@pytest.mark.parametrize(
    ("cpu_share", "config", "fits"),
    [
        (1.0, {"num_workers": 2, "num_threads": 1}, True),
        (1.0, {"num_workers": 2, "num_threads": 2}, False),
        (None, {"num_workers": 2, "num_threads": 2}, False),
        (0.1, {"num_workers": 8, "num_threads": 2}, True),
        (0.1, {"num_workers": 8, "num_threads": 1}, True),
        (1.0, {"num_workers": 3}, False),
        (1.0, {"num_workers": 0, "num_threads": 2}, True),
    ],
)
def test_workers_that_compute_share_the_cpus(cpu_share: float | None, config: Config, fits: bool) -> None:
    reason = constraints.cpu_demand_fits(config, with_loader(cpu_share=cpu_share))
    assert (reason is None) is fits


def test_the_cpu_demand_is_told_in_numbers() -> None:
    assert constraints.cpu_demand_fits({"num_workers": 4}, with_loader(cpu_share=0.75)) == (
        "4 workers that compute 75 % of the time, beside the training's threads, ask for 4.0 CPUs; "
        "with 2 allowed, 3 may be asked for"
    )


def test_beside_a_gpu_the_host_drives_with_one_thread() -> None:
    profile = a_gpu_profile(a_machine(cpus_allowed=8, cuda=True), run=RunFacts(num_threads=8))
    assert constraints.cpu_demand_fits({"num_workers": 8}, profile) is None
    assert constraints.cpu_demand_fits({"num_workers": 9}, profile) is not None


def test_a_program_that_asks_for_more_already_may_stay_there() -> None:
    profile = with_loader(num_workers=6, cpu_share=1.0)
    assert constraints.cpu_demand_fits({"num_workers": 6}, profile) is None
    assert constraints.cpu_demand_fits({"num_workers": 7}, profile) is not None


def test_queued_batches_fit_shared_memory() -> None:
    machine = a_machine(shm_bytes=64 * MEGABYTE)
    profile = a_profile(machine, loader=a_loader(batch_bytes=6 * MEGABYTE, batch_size=32))
    assert constraints.worker_queues_fit_memory({"num_workers": 4}, profile) is None
    assert constraints.worker_queues_fit_memory({"num_workers": 4, "prefetch_factor": 4}, profile) == (
        "4 workers keep 16 batches ready, 96 MiB; 51 MiB of memory and /dev/shm may be used"
    )
    assert constraints.worker_queues_fit_memory({"num_workers": 4, "batch_size": 64}, profile) is not None


def test_memory_that_the_program_uses_is_not_free() -> None:
    profile = a_profile(
        a_machine(memory_bytes=100 * MEGABYTE),
        loader=a_loader(batch_bytes=6 * MEGABYTE),
        memory=MemoryUse(host_peak_bytes=60 * MEGABYTE),
    )
    assert constraints.worker_queues_fit_memory({"num_workers": 4}, profile) is not None
    assert constraints.worker_queues_fit_memory({"num_workers": 4}, replace(profile, memory=None)) is None


def test_an_iterable_dataset_repeats_itself_in_a_second_worker() -> None:
    assert constraints.iterable_dataset_has_one_worker({"num_workers": 1}, with_loader(iterable=True)) is None
    assert (
        constraints.iterable_dataset_has_one_worker({"num_workers": 2}, with_loader(iterable=False)) is None
    )
    reason = constraints.iterable_dataset_has_one_worker({"num_workers": 2}, with_loader(iterable=True))
    assert reason == "with more than one worker an iterable dataset gives every record once per worker"


@pytest.mark.parametrize(
    ("execution", "fits"),
    [("compile-reduce-overhead", False), ("compile-max-autotune", False), ("jit_trace", False),
     ("jit_hybrid", False), ("compile", True), ("compile-max-autotune-no-cudagraphs", True), ("eager", True)],
)  # fmt: skip
def test_what_records_shapes_needs_one_shape(execution: str, fits: bool) -> None:
    config: Config = {"execution": execution}
    reason = constraints.fixed_shapes_where_recorded(config, with_loader(shapes_vary=True))
    assert (reason is None) is fits
    assert constraints.fixed_shapes_where_recorded(config, with_loader(shapes_vary=False)) is None


def planned(steps: int | None, **facts: Any) -> Profile:
    """Steps of 10 ms, 7 ms of them in forward and backward."""
    return a_rich_profile(run=RunFacts(steps_total=steps), **facts)


@pytest.mark.parametrize(
    ("execution", "steps", "fits"),
    [("compile", 3_000, False), ("compile", 4_000, True), ("compile-max-autotune", 4_000, False),
     ("compile-max-autotune", 30_000, True), ("jit_trace", 10, True), ("compile", None, True)],
)  # fmt: skip
def test_compiling_must_be_able_to_pay_back(execution: str, steps: int | None, fits: bool) -> None:
    assert (constraints.compilation_pays_back({"execution": execution}, planned(steps)) is None) is fits


def test_a_program_that_came_to_its_end_has_the_steps_that_it_made() -> None:
    ended = a_rich_profile(run=RunFacts(launch_steps=100))
    reason = constraints.compilation_pays_back({"execution": "compile"}, ended)
    assert reason is not None and reason.startswith("100 steps spend 1 s")
    longer = a_rich_profile(run=RunFacts(steps_total=4_000, launch_steps=100))
    assert constraints.compilation_pays_back({"execution": "compile"}, longer) is None


def test_what_compiling_could_save_is_told_in_numbers() -> None:
    assert constraints.compilation_pays_back({"execution": "compile"}, planned(1_000)) == (
        "1000 steps spend 7 s in forward and backward, less than the 24 s that compiling is expected to take"
    )


def test_without_phases_nothing_is_said_about_compiling() -> None:
    assert constraints.compilation_pays_back({"execution": "compile"}, planned(10, phases=None)) is None


@pytest.mark.parametrize(
    ("optimizers", "summed", "rule"),
    [
        ((an_optimizer("SGD"),), False, "linear"),
        ((an_optimizer("SGD"),), None, "linear"),
        ((an_optimizer("SGD"),), True, "none"),
        ((an_optimizer("AdamW"),), False, "sqrt"),
        ((an_optimizer("RMSprop"),), True, "sqrt"),
        ((an_optimizer("SGD"), an_optimizer("Adam")), False, "sqrt"),
        ((), False, "none"),
    ],
)
def test_the_rule_for_the_learning_rate_follows_the_optimizer(
    optimizers: tuple[OptimizerFacts, ...], summed: bool | None, rule: str
) -> None:
    profile = a_profile(optimizers=optimizers, run=RunFacts(sum_reduced_loss=summed))
    assert constraints.learning_rate_rule(profile) == rule


def test_a_batch_and_its_learning_rate_are_one_change() -> None:
    profile = a_rich_profile()
    follows = constraints.learning_rate_follows_batch
    assert follows({"batch_size": 64, "lr_scaling": "sqrt"}, profile) is None
    assert follows({"batch_size": 32, "lr_scaling": "none"}, profile) is None
    assert follows({"batch_size": 64}, profile) is None
    reason = follows({"batch_size": 64, "lr_scaling": "none"}, profile)
    assert reason == "the learning rate follows the batch size by the rule 'sqrt' for this optimizer"


def test_an_unchanged_batch_has_no_factor() -> None:
    waits = constraints.learning_rate_waits_for_batch
    assert waits({"lr_scaling": "sqrt"}, a_rich_profile()) is not None
    assert waits({"lr_scaling": "sqrt", "batch_size": 16}, a_rich_profile()) is None


def test_summed_losses_scale_themselves() -> None:
    profile = a_rich_profile(run=RunFacts(sum_reduced_loss=True))
    scale = constraints.summed_losses_scale_themselves
    assert scale({"lr_scaling": "linear", "batch_size": 64}, profile) is not None
    assert scale({"lr_scaling": "sqrt", "batch_size": 64}, profile) is None


COMPILED: Config = {"execution": "compile"}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"dynamic": "on"}, "dynamic needs an execution that compiles"),
        ({"compile_region": "blocks", "execution": "jit_trace"}, "compile_region needs an execution"),
        ({"activation_memory_budget": "0.5", "execution": "eager"}, "activation_memory_budget needs an"),
        ({"dynamic": "on", **COMPILED}, None),
        ({"compile_region": "blocks", "execution": "compile-max-autotune"}, None),
        ({"dynamic": "auto", "compile_region": "model", "activation_memory_budget": "1.0"}, None),
    ],
)
def test_options_of_compiling_need_a_compiled_execution(config: Config, reason: str | None) -> None:
    said = constraints.compile_options_need_compile(config, a_profile())
    assert said is None if reason is None else said is not None and said.startswith(reason)


def test_a_single_thread_does_not_wait() -> None:
    waits = constraints.waiting_needs_two_threads
    one, two = a_profile(run=RunFacts(num_threads=1)), a_profile(run=RunFacts(num_threads=2))
    assert waits({"omp_wait_policy": "passive"}, one) == "omp_wait_policy acts on two threads or more"
    assert waits({"omp_wait_policy": "passive", "num_threads": 2}, one) is None
    assert waits({"omp_wait_policy": "passive"}, two) is None
    assert waits({"omp_wait_policy": "unset"}, one) is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"activation_memory_budget": "0.5", **COMPILED}, "decides what is recomputed"),
        ({"activation_memory_budget": "1.0", **COMPILED}, None),
        ({"execution": "jit_script"}, "TorchScript cannot hold blocks"),
        ({}, None),
    ],
)
def test_activations_are_recomputed_in_one_way(config: Config, reason: str | None) -> None:
    said = constraints.one_way_to_recompute({"activation_checkpointing": "blocks", **config}, a_profile())
    assert said is None if reason is None else said is not None and reason in said
    assert constraints.one_way_to_recompute(config, a_profile()) is None


def test_micro_batches_divide_the_batch_of_the_configuration() -> None:
    divide, profile = constraints.micro_batches_divide_the_batch, with_loader(batch_size=12)
    assert divide({"accumulation": 4}, profile) is None
    assert divide({"accumulation": 8}, profile) == "a batch of 12 cannot be split into 8 equal parts"
    assert divide({"accumulation": 8, "batch_size": 24}, profile) is None
    assert divide({"accumulation": 4, "batch_size": 6}, profile) is not None
    assert divide({"accumulation": 4}, a_profile()) is None


def test_fully_sharded_models_are_compiled_only_when_named() -> None:
    rule = constraints.UNLESS_NAMED["execution"]
    sharded = a_profile(roots=(a_root(parallel="FullyShardedDataParallel"),))
    reason = rule(COMPILED, sharded)
    assert reason is not None and "use_orig_params=True" in reason
    assert rule({"execution": "eager"}, sharded) is None
    assert rule(COMPILED, a_profile(roots=(a_root(parallel="DistributedDataParallel"),))) is None
    assert rule(COMPILED, planned(10)) is not None


@pytest.mark.parametrize(
    ("memory", "short"),
    [
        (None, False),
        (MemoryUse(host_peak_bytes=7 * 2**30), False),
        (MemoryUse(host_peak_bytes=14 * 2**30), True),
        (MemoryUse(host_peak_bytes=14 * 2**30, host_used_share=0.5), False),
        (MemoryUse(host_peak_bytes=2**30, host_limit_bytes=2**30), True),
        (MemoryUse(host_peak_bytes=0, device_peak_bytes=95, device_total_bytes=100), True),
        (MemoryUse(host_peak_bytes=0, device_peak_bytes=85, device_total_bytes=100), False),
        (MemoryUse(host_peak_bytes=0, allocation_retries=1), True),
    ],
)
def test_memory_is_short_near_its_limit(memory: MemoryUse | None, short: bool) -> None:
    assert constraints.memory_is_short(a_profile(memory=memory)) is short


@pytest.mark.parametrize(
    ("name", "value"),
    [("activation_checkpointing", "blocks"), ("accumulation", 2), ("activation_memory_budget", "0.5")],
)
def test_memory_is_saved_only_in_need_or_for_a_larger_batch(name: str, value: int | str) -> None:
    rule, profile = constraints.UNLESS_NAMED[name], with_loader()
    reason = rule({name: value}, profile)
    assert reason is not None and reason.startswith(f"{name} saves memory at the price of time")
    assert rule({name: constraints.SAVE_MEMORY[name]}, profile) is None
    assert rule({name: value, "batch_size": 64}, profile) is None
    assert rule({name: value, "batch_size": 16}, profile) is not None
    assert rule({name: value}, replace(profile, memory=MemoryUse(15 * 2**30))) is None


@pytest.mark.parametrize("rule", [*constraints.CONSTRAINTS, *constraints.UNLESS_NAMED.values()])
def test_a_profile_without_facts_allows_everything(rule: constraints.Constraint) -> None:
    config: Config = {"num_workers": 64, "prefetch_factor": 8, "execution": "compile", "batch_size": 4096}
    assert rule(config, a_profile()) is None


def test_a_cache_in_every_worker_must_fit_and_live_on() -> None:
    loader = a_loader(num_workers=0, dataset_length=1_000_000, batch_bytes=64 * 2**20, batch_size=32)
    profile = a_profile(a_machine(memory_bytes=8 * 2**30), loader=loader)
    assert "MiB" in str(constraints.cache_fits_every_worker({"in_memory_cache": "memory"}, profile))
    small = a_profile(loader=replace(loader, dataset_length=100))
    assert constraints.cache_fits_every_worker({"in_memory_cache": "memory"}, small) is None
    ranks: dict[str, int | str] = {"in_memory_cache": "memory", "ranks": 2}
    assert "other items in every epoch" in str(constraints.cache_fits_every_worker(ranks, small))
    workers: dict[str, int | str] = {"in_memory_cache": "memory", "num_workers": 2}
    assert "persistent_workers" in str(constraints.cache_fits_every_worker(workers, small))
    assert constraints.cache_fits_every_worker({**workers, "persistent_workers": "on"}, small) is None


@pytest.mark.parametrize("knob", ["device_prefetcher", "non_blocking"])
def test_copies_beside_the_host_need_pinned_memory(knob: str) -> None:
    profile = a_profile(loader=a_loader())
    assert "pin_memory" in str(
        constraints.copies_need_pinned_memory({knob: "on", "pin_memory": "off"}, profile)
    )
    assert constraints.copies_need_pinned_memory({knob: "on", "pin_memory": "on"}, profile) is None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"sdpa_backend": "math", "activation_checkpointing": "blocks"}, "recomputed"),
        ({"sdpa_backend": "math"}, None),
    ],
)
def test_a_kernel_of_attention_is_not_changed_under_other_knobs(config: Config, said: str | None) -> None:
    found = constraints.kernels_of_attention_stay_the_same(config, a_profile())
    assert found is None if said is None else said in str(found)


def test_memory_that_other_programs_use_is_not_free() -> None:
    machine = replace(TWO_CPUS, memory_bytes=64 * 2**30, shm_bytes=64 * 2**30)
    loader = a_loader(batch_size=32, batch_bytes=100 * MEGABYTE, dataset_length=32)
    config: Config = {"num_workers": 2, "prefetch_factor": 4}
    cached: Config = {"in_memory_cache": "memory", "num_workers": 0}
    free = a_profile(replace(machine, available_bytes=2000 * MEGABYTE), loader=loader)
    assert constraints.worker_queues_fit_memory(config, free) is None
    full = a_profile(replace(machine, available_bytes=100 * MEGABYTE), loader=loader)
    assert constraints.worker_queues_fit_memory(config, full) == (
        "2 workers keep 8 batches ready, 800 MiB; 80 MiB of memory and /dev/shm may be used"
    )
    assert constraints.cache_fits_every_worker(cached, free) is None
    assert constraints.cache_fits_every_worker(cached, full) == (
        "1 caches of the dataset take 100 MiB of 80 MiB free"
    )
