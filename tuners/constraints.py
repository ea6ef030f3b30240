"""What a whole configuration may not be: rules over several knobs, each with the reason it gives.

A constraint sees a complete configuration and the profile of the program as it is; a knob that is not in
the configuration has the value that the profile knows. Constraints of one knob alone are that knob's
own ``choices`` and ``check``.
"""

from collections.abc import Callable

from advisor.profiles.profile import LoaderFacts, Profile
from advisor.tuners.knob import Config

Constraint = Callable[[Config, Profile], str | None]

WORKERS_PER_CPU = 4
SPARE_CPUS = 1
MEMORY_SHARE = 0.8
DEFAULT_PREFETCH = 2
COMPILE_S = 24.0  # the shortest cold compilation seen
AUTOTUNE_S = 120.0  # assumed: benchmarking kernels takes minutes on top of compiling
CUDA_GRAPHS = ("compile-reduce-overhead", "compile-max-autotune")
MAX_AUTOTUNE = ("compile-max-autotune", "compile-max-autotune-no-cudagraphs")
LINEAR_RULE = ("SGD", "ASGD")
SUMMED = "the loss is summed over the batch, so its gradient already grows with the batch"


def worker_options_need_workers(config: Config, profile: Profile) -> str | None:
    """Queue length and lifetime of workers exist only where there are workers."""
    loader = profile.loader
    if loader is None or num_workers(config, loader) > 0:
        return None
    for name, present in (
        ("prefetch_factor", loader.prefetch_factor or DEFAULT_PREFETCH),
        ("persistent_workers", "on" if loader.persistent_workers else "off"),
    ):
        if config.get(name, present) != present:
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
    if threads > max(allowed, _present_threads(profile)):
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
    demand = (1 if on_gpu else num_threads(config, profile)) + workers * share
    present = (1 if on_gpu else _present_threads(profile)) + loader.num_workers * share
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
    used = profile.memory.host_peak_bytes if profile.memory is not None else 0
    room = MEMORY_SHARE * min(profile.machine.memory_bytes - used, profile.machine.shm_bytes)
    if workers == 0 or queued <= room:
        return None
    return (
        f"{workers} workers keep {workers * depth} batches ready, {queued / 2**20:.0f} MiB; "
        f"{max(0.0, room) / 2**20:.0f} MiB of memory and /dev/shm may be used"
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
    if varies and (value in CUDA_GRAPHS or value == "jit_trace"):
        return f"execution={value} needs batches of one shape, and these vary"
    return None


def compilation_pays_back(config: Config, profile: Profile) -> str | None:
    """Compiling must cost less than all the time that it could save in the steps to come."""
    value = str(config.get("execution", "eager"))
    run, phases = profile.run, profile.phases
    if not value.startswith("compile") or run is None or run.steps_total is None or phases is None:
        return None
    cost_s = COMPILE_S + (AUTOTUNE_S if value in MAX_AUTOTUNE else 0.0)
    most_s = run.steps_total * phases.step_ms / 1000 * phases.share("forward", "backward")
    if most_s >= cost_s:
        return None
    return (
        f"{run.steps_total} steps spend {most_s:.0f} s in forward and backward, less than the "
        f"{cost_s:.0f} s that compiling is expected to take"
    )


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
    worker_options_need_workers,
    few_workers_per_cpu,
    threads_fit_the_cpus,
    cpu_demand_fits,
    worker_queues_fit_memory,
    iterable_dataset_has_one_worker,
    fixed_shapes_where_recorded,
    learning_rate_waits_for_batch,
    summed_losses_scale_themselves,
)

UNLESS_NAMED: dict[str, Constraint] = {
    "execution": compilation_pays_back,
    "lr_scaling": learning_rate_follows_batch,
}
"""Habits of the search: they hold for a knob unless the user named the values to try."""


def num_workers(config: Config, loader: LoaderFacts) -> int:
    """Workers of the configuration, or of the program where it says nothing."""
    return int(config.get("num_workers", loader.num_workers))


def num_threads(config: Config, profile: Profile) -> int:
    """Threads of the configuration, or of the program where it says nothing."""
    return int(config.get("num_threads", _present_threads(profile)))


def _present_threads(profile: Profile) -> int:
    if profile.run is not None:
        return profile.run.num_threads
    return profile.machine.torch_default_threads or 1
