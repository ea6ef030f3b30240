"""What a DataLoader of a framework means for a workload."""

from typing import TYPE_CHECKING, Any

from advisor.base.errors import ArgumentError

if TYPE_CHECKING:
    from torch.utils.data import DataLoader, Sampler

OWN_LOOP = "profile it with advisor.frameworks, or write a workload: `advisor init`"


def loader_arguments(loader: Any) -> dict[str, Any]:
    """Arguments of a workload that make the batches of a DataLoader, in its order or shuffled as it does.

    Raises:
        ArgumentError: It is no DataLoader, or makes its batches in a way that a workload has no words for.
    """
    from torch.utils.data import BatchSampler, DataLoader

    if not isinstance(loader, DataLoader):
        raise refusal(f"the training data come from a {type(loader).__name__}, not from one DataLoader")
    if loader.batch_size is None:
        raise refusal("the DataLoader has a batch_sampler of its own, or makes no batches")
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not BatchSampler:
        raise refusal(f"the DataLoader's batches are made by {type(loader.batch_sampler).__name__}")
    if loader.worker_init_fn is not None:
        raise refusal("the DataLoader has a worker_init_fn, which a workload cannot carry")
    dataset = loader.dataset
    return {
        "dataset": lambda: dataset,
        "batch_size": loader.batch_size,
        "shuffle": is_shuffled(loader),
        "collate": loader.collate_fn,
        "drop_last": loader.drop_last,
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": loader.pin_memory,
    }


def is_shuffled(loader: "DataLoader[Any]") -> bool:
    """Whether its order is random."""
    from torch.utils.data import IterableDataset

    return not isinstance(loader.dataset, IterableDataset) and is_random(loader.sampler)


def is_random(sampler: "Sampler[Any] | Any | None") -> bool:
    """Whether a sampler's order is random.

    Raises:
        ArgumentError: It is neither random nor sequential.
    """
    from torch.utils.data import RandomSampler, SequentialSampler

    if sampler is None or type(sampler) is SequentialSampler:
        return False
    if isinstance(sampler, RandomSampler) and not sampler.replacement:
        return True
    raise refusal(f"the order of the data is made by {type(sampler).__name__}")


def refusal(reason: str, hint: str = OWN_LOOP) -> ArgumentError:
    """What to raise where something cannot be carried over."""
    return ArgumentError(reason, hint=hint)
