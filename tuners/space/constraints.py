"""What a whole configuration may not be: rules over several knobs, each with the reason it gives.

A constraint sees a complete configuration and the profile of the program as it is; a knob that is not in
the configuration has the value that the profile knows. Constraints of one knob alone are that knob's
own ``choices`` and ``check``.
"""

from collections.abc import Callable

from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.tuners.knob import Config, Value
from advisor.tuners.mechanisms.compiling import NEED_COMPILE, compiles
from advisor.tuners.space.form_constraints import (
    one_way_to_execute,
    precision_is_lowered_once,
    quantised_by_who_runs_it,
)
from advisor.tuners.space.memory_model import free_bytes, memory_limit, memory_model
from advisor.tuners.space.rank_constraints import (
    num_threads,
    present_threads,
    rank_threads,
    ranks_divide_the_batch,
    ranks_share_the_threads,
    strategies_have_their_ranks,
    strategies_leave_out,
)
from advisor.tuners.space.update_constraints import (
    compiled_updates_are_plain,
    low_precision_is_chosen_once,
    sparse_gradients_are_not_fused,
    updates_in_backward_stand_alone,
)

Constraint = Callable[[Config, Profile], str | None]

WORKERS_PER_CPU = 4
SPARE_CPUS = 1
MEMORY_SHARE = 0.8
DEFAULT_PREFETCH = 2
FAR_ABOVE = 1.3  # times the memory that may be used: predictions err
COMPILE_S = 24.0  # the shortest cold compilation seen
AUTOTUNE_S = 120.0  # assumed: benchmarking kernels takes minutes on top of compiling
TRACED = ("jit_trace", "jit_hybrid")
CUDA_GRAPHS = ("compile-reduce-overhead", "compile-max-autotune")
MAX_AUTOTUNE = ("compile-max-autotune", "compile-max-autotune-no-cudagraphs")
LINEAR_RULE = ("SGD", "ASGD")
SUMMED = "the loss is summed over the batch, so its gradient already grows with the batch"
SAVE_MEMORY: dict[str, Value] = {
    "fsdp_offload": "off",
    "accumulation": 1,
    "activation_checkpointing": "none",
    "activation_memory_budget": "1.0",
}
"""Knobs that trade time for memory, with the setting that does not."""
DEVICE_FULL = 0.90  # of the device at the peak of a step, as the rule memory_pressure has it
HOST_FULL = 0.80


def worker_options_need_workers(config: Config, profile: Profile) -> str | None:
    """Queue length and lifetime of workers exist only where there are workers."""
    loader = profile.loader
    if loader is None or num_workers(config, loader) > 0:
        return None
    for name, present in (
        ("prefetch_factor", loader.prefetch_factor or DEFAULT_PREFETCH),
        ("persistent_workers", "on" if loader.persistent_workers else "off"),
        ("multiprocessing_context", loader.multiprocessing_context),
        ("in_order", "on"),
        ("sharing_strategy", "file_descriptor"),
    ):
        if present is not None and config.get(name, present) != present:
            return f"{name} needs num_workers above 0"
    return None


def few_workers_per_cpu(config: Config, profile: Profile) -> str | None:
    """torch only warns about too many workers; four per CPU are the limit here."""
    loader = profile.loader
    if loader is None:
        return None
    workers, most = num_workers(config, loader), WORKERS_PER_CPU * profile.machine.cpus_allowed
    if workers > max(most, loader.num_workers):
        return f"num_workers is {workers} but {profile.machine.cpus_allowed} CPUs allow {most}"
    return None


def threads_fit_the_cpus(config: Config, profile: Profile) -> str | None:
    """More threads than CPUs take turns and wait for each other."""
    threads, allowed = num_threads(config, profile), profile.machine.cpus_allowed
    if threads > max(allowed, present_threads(profile)):
        return f"num_threads is {threads} but this process may use {allowed} CPUs"
    return None


def cpu_demand_fits(config: Config, profile: Profile) -> str | None:
    """Threads and computing workers share the CPUs; workers that wait for storage may exceed them.

    Where the CPU share of an item's time was not measured, workers are taken to compute all the time.
    On a GPU the host drives with one thread, whatever torch's number of threads is.
    """
    loader = profile.loader
    if loader is None:
        return None
    workers = num_workers(config, loader)
    if workers == 0:
        return None
    share = 1.0 if loader.cpu_share is None else loader.cpu_share
    on_gpu = profile.device.startswith("cuda")
    ranks = int(config.get("ranks", 1))
    threads = rank_threads(config, profile)
    demand = ranks * ((1 if on_gpu else threads) + workers * share)
    present = (1 if on_gpu else present_threads(profile)) + loader.num_workers * share
    allowed = profile.machine.cpus_allowed
    if demand <= max(allowed + SPARE_CPUS, present):
        return None
    return (
        f"{workers} workers that compute {share * 100:.0f} % of the time, beside the training's threads, "
        f"ask for {demand:.1f} CPUs; with {allowed} allowed, {allowed + SPARE_CPUS} may be asked for"
    )


def worker_queues_fit_memory(config: Config, profile: Profile) -> str | None:
    """Batches waiting in the queues must fit into free memory and into /dev/shm."""
    loader = profile.loader
    if loader is None or loader.batch_bytes is None:
        return None
    workers = num_workers(config, loader)
    depth = int(config.get("prefetch_factor", loader.prefetch_factor or DEFAULT_PREFETCH))
    queued = workers * depth * loader.batch_bytes * batch_ratio(config, profile)
    room = MEMORY_SHARE * min(free_bytes(profile), profile.machine.shm_bytes)
    if workers == 0 or queued <= room:
        return None
    return (
        f"{workers} workers keep {workers * depth} batches ready, {queued / 2**20:.0f} MiB; "
        f"{max(0.0, room) / 2**20:.0f} MiB of memory and /dev/shm may be used"
    )


def cache_fits_every_worker(config: Config, profile: Profile) -> str | None:
    """Each process caches what it reads, so all of them together may hold the dataset many times."""
    loader = profile.loader
    if loader is None or config.get("in_memory_cache") != "memory":
        return None
    if int(config.get("ranks", 1)) > 1:
        return "in_memory_cache on several ranks: each is given other items in every epoch"
    workers = num_workers(config, loader)
    kept = config.get("persistent_workers", "on" if loader.persistent_workers else "off")
    if workers and kept != "on":
        return "in_memory_cache with workers needs persistent_workers: a worker's cache ends with it"
    if loader.dataset_length is None or loader.batch_bytes is None or not loader.batch_size:
        return None
    held = max(1, workers) * loader.dataset_length * loader.batch_bytes / loader.batch_size
    room = MEMORY_SHARE * free_bytes(profile)
    if held <= room:
        return None
    need, free = held / 2**20, room / 2**20
    return f"{max(1, workers)} caches of the dataset take {need:.0f} MiB of {free:.0f} MiB free"


def copies_need_pinned_memory(config: Config, profile: Profile) -> str | None:
    """A copy from pageable memory waits for the host, whatever it was asked for."""
    loader = profile.loader
    pinned = config.get("pin_memory", "on" if loader is not None and loader.pin_memory else "off")
    asked = [name for name in ("device_prefetcher", "non_blocking") if config.get(name) == "on"]
    return f"{asked[0]} needs pin_memory" if asked and pinned != "on" else None


def kernels_of_attention_stay_the_same(config: Config, profile: Profile) -> str | None:
    """Recomputation must run the kernel that forward ran."""
    if config.get("sdpa_backend", "default") == "default":
        return None
    if config.get("activation_checkpointing", "none") != "none":
        return "sdpa_backend would mix kernels where activations are recomputed (activation_checkpointing)"
    return None


def predicted_memory_fits(config: Config, profile: Profile) -> str | None:
    """What surely needs far more memory than there is must not be run to find out.

    Taken with the least that it can need; what may fit is tried, and its failure then bounds larger ones.
    """
    model, limit = memory_model(profile), memory_limit(profile)
    if model is None or limit is None:
        return None
    needed = model.at_least(config)
    if needed <= max(FAR_ABOVE * limit, model.at_least({})):
        return None
    return (
        f"it is predicted to need at least {needed / 2**20:.0f} MiB of memory with a batch of "
        f"{config.get('batch_size', model.batch)}; {limit / 2**20:.0f} MiB may be used"
    )


def iterable_dataset_has_one_worker(config: Config, profile: Profile) -> str | None:
    """Each worker walks a whole iterable dataset, so records would repeat."""
    loader = profile.loader
    if loader is None or not loader.iterable or num_workers(config, loader) <= max(1, loader.num_workers):
        return None
    return "with more than one worker an iterable dataset gives every record once per worker"


def fixed_shapes_where_recorded(config: Config, profile: Profile) -> str | None:
    """CUDA graphs and traces hold one shape of input."""
    value = config.get("execution")
    varies = profile.loader is not None and profile.loader.shapes_vary
    if varies and (value in CUDA_GRAPHS or value in TRACED):
        return f"execution={value} needs batches of one shape, and these vary"
    return None


def compilation_pays_back(config: Config, profile: Profile) -> str | None:
    """Compiling must cost less than all the time that it could save in the steps to come."""
    value = str(config.get("execution", "eager"))
    run, phases = profile.run, profile.phases
    steps = run.training_steps if run is not None else None
    if not value.startswith("compile") or steps is None or phases is None:
        return None
    cost_s = COMPILE_S + (AUTOTUNE_S if value in MAX_AUTOTUNE else 0.0)
    most_s = steps * phases.step_ms / 1000 * phases.share("forward", "backward")
    if most_s >= cost_s:
        return None
    return (
        f"{steps} steps spend {most_s:.0f} s in forward and backward, less than the "
        f"{cost_s:.0f} s that compiling is expected to take"
    )


def compile_options_need_compile(config: Config, profile: Profile) -> str | None:
    """How to compile means nothing where nothing is compiled."""
    if compiles(config):
        return None
    changed = [name for name, own in NEED_COMPILE.items() if config.get(name, own) != own]
    return f"{changed[0]} needs an execution that compiles" if changed else None


def waiting_needs_two_threads(config: Config, profile: Profile) -> str | None:
    """A single thread waits for no other."""
    if config.get("omp_wait_policy", "unset") != "unset" and num_threads(config, profile) == 1:
        return "omp_wait_policy acts on two threads or more"
    return None


def one_way_to_recompute(config: Config, profile: Profile) -> str | None:
    """Activations are recomputed by the blocks or by the compiler, and a trace holds neither."""
    if config.get("activation_checkpointing", "none") == "none":
        return None
    if config.get("activation_memory_budget", "1.0") != "1.0":
        return "activation_memory_budget decides what is recomputed, which excludes activation_checkpointing"
    if str(config.get("execution")).startswith("jit"):
        return "TorchScript cannot hold blocks that are recomputed (activation_checkpointing)"
    return None


def micro_batches_divide_the_batch(config: Config, profile: Profile) -> str | None:
    """Each micro-batch weighs the same only when all are of one size."""
    parts = int(config.get("accumulation", 1))
    present = profile.loader.batch_size if profile.loader is not None else None
    size = config.get("batch_size", present)
    if size is None or int(size) % parts == 0:
        return None
    return f"a batch of {size} cannot be split into {parts} equal parts"


def sharded_models_are_compiled_by_name(config: Config, profile: Profile) -> str | None:
    """`FullyShardedDataParallel` compiles only with ``use_orig_params=True``, which is not its default."""
    sharded = any(root.parallel == "FullyShardedDataParallel" for root in profile.roots)
    if sharded and compiles(config):
        return "FullyShardedDataParallel compiles only with use_orig_params=True; name execution to try it"
    return None


def compiling_is_worth_it(config: Config, profile: Profile) -> str | None:
    """Compiling works here as far as it is known, and pays back."""
    return sharded_models_are_compiled_by_name(config, profile) or compilation_pays_back(config, profile)


def memory_is_short(profile: Profile) -> bool:
    """Whether the peak of a step comes close to what the device, the machine or its cgroup offers."""
    memory = profile.memory
    if memory is None:
        return False
    device = (memory.device_peak_bytes or 0) / (memory.device_total_bytes or 1)
    host = memory.host_used_share
    if host is None:
        host = memory.host_peak_bytes / (memory.host_limit_bytes or profile.machine.memory_bytes or 1)
    return device > DEVICE_FULL or host > HOST_FULL or bool(memory.allocation_retries)


def saves_memory_only_in_need(name: str) -> Constraint:
    """The rule that one knob of ``SAVE_MEMORY`` waits for memory pressure or a larger batch."""

    def rule(config: Config, profile: Profile) -> str | None:
        used = config.get(name, SAVE_MEMORY[name]) != SAVE_MEMORY[name]
        if not used or batch_ratio(config, profile) > 1.0 or memory_is_short(profile):
            return None
        return f"{name} saves memory at the price of time; memory is not short and the batch is no larger"

    return rule


def batch_ratio(config: Config, profile: Profile) -> float:
    """Batch size of the configuration over the program's own; 1 where either is unknown."""
    present = profile.loader.batch_size if profile.loader is not None else None
    return int(config.get("batch_size", present)) / present if present else 1.0


def learning_rate_waits_for_batch(config: Config, profile: Profile) -> str | None:
    """A factor on the learning rate comes from the batch size; without a change there is none."""
    if config.get("lr_scaling", "none") != "none" and batch_ratio(config, profile) == 1.0:
        return "the batch size is unchanged, so there is no factor for the learning rate"
    return None


def summed_losses_scale_themselves(config: Config, profile: Profile) -> str | None:
    """A loss summed over the batch has gradients that grow with it already."""
    summed = profile.run is not None and profile.run.sum_reduced_loss
    if summed and config.get("lr_scaling") == "linear":
        return SUMMED
    return None


def learning_rate_rule(profile: Profile) -> str:
    """The usual rule for this program's optimizers: linear for SGD, square root for adaptive ones."""
    if not profile.optimizers:
        return "none"
    if any(facts.name not in LINEAR_RULE for facts in profile.optimizers):
        return "sqrt"
    return "none" if profile.run is not None and profile.run.sum_reduced_loss else "linear"


def learning_rate_follows_batch(config: Config, profile: Profile) -> str | None:
    """A batch of another size and its learning rate are one change."""
    if "lr_scaling" not in config or batch_ratio(config, profile) == 1.0:
        return None
    rule = learning_rate_rule(profile)
    if config["lr_scaling"] == rule:
        return None
    return f"the learning rate follows the batch size by the rule '{rule}' for this optimizer"


CONSTRAINTS: tuple[Constraint, ...] = (
    strategies_have_their_ranks,
    ranks_divide_the_batch,
    ranks_share_the_threads,
    strategies_leave_out,
    worker_options_need_workers,
    few_workers_per_cpu,
    threads_fit_the_cpus,
    cpu_demand_fits,
    worker_queues_fit_memory,
    cache_fits_every_worker,
    copies_need_pinned_memory,
    kernels_of_attention_stay_the_same,
    sparse_gradients_are_not_fused,
    updates_in_backward_stand_alone,
    compiled_updates_are_plain,
    low_precision_is_chosen_once,
    predicted_memory_fits,
    iterable_dataset_has_one_worker,
    fixed_shapes_where_recorded,
    compile_options_need_compile,
    waiting_needs_two_threads,
    one_way_to_recompute,
    micro_batches_divide_the_batch,
    learning_rate_waits_for_batch,
    summed_losses_scale_themselves,
    quantised_by_who_runs_it,
    one_way_to_execute,
    precision_is_lowered_once,
)

UNLESS_NAMED: dict[str, Constraint] = {
    "execution": compiling_is_worth_it,
    "lr_scaling": learning_rate_follows_batch,
    **{name: saves_memory_only_in_need(name) for name in SAVE_MEMORY},
}
"""Habits of the search: they hold for a knob unless the user named the values to try."""


def num_workers(config: Config, loader: LoaderFacts) -> int:
    """Workers of the configuration, or of the program where it says nothing."""
    return int(config.get("num_workers", loader.num_workers))
