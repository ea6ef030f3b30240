"""What a configuration of several ranks may not be, and how many threads each of them has."""

from collections.abc import Sequence

from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Config, Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategy_knob import StrategySetting

STRATEGY_SETTINGS: dict[str, tuple[str, ...]] = {
    name: knob.strategies for name, knob in KNOBS.items() if isinstance(knob, StrategySetting)
}
"""Knobs that act only beside certain strategies, with those."""
OWN = {"DistributedDataParallel": "ddp", "FullyShardedDataParallel": "fsdp", "FSDPModule": "fsdp"}
"""Classes of torch in which programs wrap their models themselves, with the strategy that does the same."""
ONE_PROCESS = ("single", "data_parallel")

LEFT_OUT: dict[tuple[str, str], tuple[tuple[str, tuple[str, ...]], ...]] = {
    ("strategy", "fsdp"): (
        ("amp", ("fp16",)),
        ("channels_last", ("on", "3d")),
        ("low_precision_parameters", ("bf16",)),
        ("optimizer_implementation", ("fused",)),
    ),
    ("strategy", "tensor_parallel"): (
        ("amp", ("fp16",)),
        ("low_precision_parameters", ("bf16",)),
        ("sparse_embedding", ("on",)),
    ),
    ("strategy", "pipeline"): (("amp", ("fp16",)), ("low_precision_parameters", ("bf16",))),
    ("fsdp_precision", "bf16"): (("amp", ("bf16", "fp16")),),
    ("parameters_as_bucket_view", "on"): (("channels_last", ("on", "3d")),),
    ("communication_hook", "powersgd"): (("amp", ("fp16",)), ("channels_last", ("on", "3d"))),
    ("overlap_with_ddp", "on"): (
        ("amp", ("fp16",)),
        ("lr_scaling", ("linear", "sqrt")),
        ("optimizer_implementation", ("for-loop", "foreach", "fused")),
    ),
}
"""Settings of strategies that cannot stand beside these values of other knobs."""


def with_ranks(fixed: Config, ranks: Sequence[int], machine: Machine) -> dict[str, Value]:
    """What is fixed, with the number of ranks that a fixed strategy needs: the largest asked for."""
    complete = dict(fixed)
    if complete.get("strategy", "single") not in ONE_PROCESS and "ranks" not in complete:
        complete["ranks"] = max(ranks or (machine.places,))
    return complete


def strategies_have_their_ranks(config: Config, profile: Profile) -> str | None:
    """One process trains alone; every other strategy needs several, and each its own settings."""
    strategy, ranks = str(config.get("strategy", "single")), int(config.get("ranks", 1))
    if strategy == "single" and ranks > 1:
        return f"{ranks} ranks need a strategy by which they train together"
    if strategy not in ONE_PROCESS and ranks == 1:
        return f"{strategy} needs at least 2 ranks"
    for name, strategies in STRATEGY_SETTINGS.items():
        default = setting_default(name)
        if strategy not in strategies and config.get(name, default) != default:
            return f"{name} needs strategy={' or '.join(strategies)}"
    return None


def ranks_divide_the_batch(config: Config, profile: Profile) -> str | None:
    """Every worker takes an equal share of the batch, so that the global batch is kept."""
    strategy, ranks = str(config.get("strategy", "single")), int(config.get("ranks", 1))
    if profile.loader is None or profile.loader.batch_size is None or not STRATEGIES[strategy].splits_batch:
        return None
    size = int(config.get("batch_size", profile.loader.batch_size))
    if size % ranks:
        return f"a batch of {size} cannot be divided among {ranks} ranks"
    return None


def strategies_leave_out(config: Config, profile: Profile) -> str | None:
    """What a strategy cannot be combined with; what only a running program shows is refused there."""
    strategy = str(config.get("strategy", "single"))
    if strategy in ONE_PROCESS:
        return None
    if config.get("optimizer_in_backward") == "on":
        return "optimizer_in_backward updates before gradients are averaged over ranks"
    if str(config.get("execution", "")).startswith("jit"):
        return "TorchScript calls the model past its strategy, so gradients are not averaged"
    for (name, value), excluded in LEFT_OUT.items():
        if config.get(name) != value:
            continue
        for other, wrong in excluded:
            if str(config.get(other)) in wrong:
                return f"{name}={value} excludes {other}={config[other]}"
    chunks = int(config.get("pipeline_chunks", 4))
    if strategy == "pipeline" and config.get("schedule") == "1f1b" and chunks < int(config.get("ranks", 1)):
        return "schedule=1f1b needs as many pipeline_chunks as ranks"
    return None


def ranks_share_the_threads(config: Config, profile: Profile) -> str | None:
    """The cores are divided among the ranks, one thread for each core of a rank."""
    if int(config.get("ranks", 1)) > 1 and num_threads(config, profile) != present_threads(profile):
        return "ranks divide the cores among them, so num_threads is not set beside them"
    return None


def without_its_strategy(name: str, profile: Profile) -> str:
    """Why a setting of strategies cannot be tried where none of these is tried."""
    strategies = STRATEGY_SETTINGS[name]
    own = next((root.parallel for root in profile.roots if root.parallel in OWN), None)
    if own is not None and OWN[own] in strategies:
        return f"the program wraps its model in {own} itself: set it there"
    return f"it needs strategy={' or '.join(strategies)}"


def setting_default(name: str) -> Value:
    """What a setting of strategies is where nobody sets it."""
    knob = KNOBS[name]
    assert isinstance(knob, StrategySetting)
    return knob.default


def rank_threads(config: Config, profile: Profile) -> int:
    """Threads of one rank: those of a process alone, or of its share of the cores."""
    ranks = int(config.get("ranks", 1))
    if ranks == 1:
        return num_threads(config, profile)
    return max(1, profile.machine.cpus_allowed // ranks)


def num_threads(config: Config, profile: Profile) -> int:
    """Threads of the configuration, or of the program where it says nothing."""
    return int(config.get("num_threads", present_threads(profile)))


def present_threads(profile: Profile) -> int:
    """Threads of the program as it is."""
    if profile.run is not None:
        return profile.run.num_threads
    return profile.machine.torch_default_threads or 1
