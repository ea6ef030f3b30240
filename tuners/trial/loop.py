"""The reference training loop that runs a workload: plain torch, observed by the same hooks as a script.

Where several processes train together each of them runs this loop; what differs is the strategy's.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from advisor.base.errors import ArgumentError
from advisor.tuners.mechanisms.data_parallel.dealt_evaluation import DealtEvaluation
from advisor.tuners.mechanisms.joined_loss import JOINING
from advisor.tuners.mechanisms.micro_batches import SPLITTING
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Strategy
from advisor.workloads.workload import Workload

SERVES_ONLY = "the workload has no optimizer to train with: it answers requests (`--objective latency`)"

if TYPE_CHECKING:
    import torch


def train(
    workload: Workload,
    device_name: str = "auto",
    batches: int | None = None,
    strategy: Strategy | None = None,
) -> None:
    """Train until stopped from outside (a hook ends the process), or for ``batches`` micro-batches.

    Args:
        workload: What to train.
        device_name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; the workload's own device when ``auto``.
        batches: Train on the first so many micro-batches, all made in this process whatever the loader was
            told: for comparing numbers, where the data must not depend on how it is loaded.
        strategy: How this process trains together with others, which it has met (``HERE.join``); alone
            where ``None``.

    Raises:
        ArgumentError: The workload has no optimizer.
        Refused: The strategy cannot train this model.
    """
    import torch

    if workload.optimizer is None:
        raise ArgumentError(SERVES_ONLY)
    parallel = strategy or Strategy()
    device = torch.device(device_of(device_name if device_name != "auto" else workload.device))
    model = workload.model()
    model.to(device)
    model.train()
    HERE.share_weights(model)
    model = parallel.wrap(model)
    optimizer = parallel.optimizer(workload.optimizer, model)
    scheduler = workload.scheduler(optimizer) if workload.scheduler else None
    loader = make_loader(workload)
    if batches is not None:
        loader.num_workers = 0  # after changes of the loader were made: a dataset may draw random numbers
    share_out = batches is not None and parallel.splits_batch and HERE.place.workers > 1
    count = len(loader) if batches is None and hasattr(loader.dataset, "__len__") else None
    evaluate = None if batches is not None else _evaluation(workload, parallel)
    passes = _epochs(loader, evaluate, model, lambda: parallel.epoch(model, optimizer, count))
    if batches is not None:
        passes = itertools.islice(passes, batches)
    pending = 0
    for batch in passes:
        mine = moved(HERE.share(batch) if share_out else batch, device)
        parts = SPLITTING.split(mine)
        for at, (part, share) in enumerate(parts):
            last = pending + 1 == workload.accumulation and at + 1 == len(parts)
            with parallel.micro_batch(model, last):
                parallel.forward_backward(_checked(workload), model, part, workload.accumulation / share)
        pending += 1
        if pending < workload.accumulation:
            continue
        pending = 0
        if workload.clip_norm is not None:
            parallel.clip(model, workload.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()
        parallel.updated(model, optimizer)


def make_loader(workload: Workload) -> "torch.utils.data.DataLoader[Any]":
    """The DataLoader as the workload describes it."""
    from torch.utils.data import DataLoader, IterableDataset

    dataset = workload.dataset()
    arguments: dict[str, Any] = {"batch_size": workload.batch_size, "drop_last": workload.drop_last}
    if not isinstance(dataset, IterableDataset):
        arguments["shuffle"] = workload.shuffle
    if workload.collate is not None:
        arguments["collate_fn"] = workload.collate
    arguments["num_workers"] = workload.num_workers
    arguments["pin_memory"] = workload.pin_memory
    if workload.num_workers > 0:
        arguments["persistent_workers"] = workload.persistent_workers
        if workload.prefetch_factor is not None:
            arguments["prefetch_factor"] = workload.prefetch_factor
    return DataLoader(dataset, **arguments)


def _evaluation(workload: Workload, strategy: Strategy) -> "Callable[[torch.nn.Module], Any] | None":
    """The user's evaluation, shared by the workers where each of them has the whole model."""
    evaluate, place = workload.evaluate, HERE.place
    if evaluate is None or place.workers == 1 or not strategy.splits_batch:
        return evaluate
    share = DealtEvaluation(place.rank, place.workers)

    def shared(model: "torch.nn.Module") -> Any:
        with share():
            return evaluate(model)

    return shared


def _epochs(
    loader: Iterable[Any],
    evaluate: Any,
    model: "torch.nn.Module",
    around: Callable[[], AbstractContextManager[Any]],
) -> Iterator[Any]:
    for epoch in itertools.count():
        set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        empty = True
        with around():
            for batch in loader:
                empty = False
                yield batch
        if empty:
            raise ValueError(
                "the dataset gives no batch: it has fewer items than one batch of "
                f"{getattr(loader, 'batch_size', None)}, or is used up"
            )
        if evaluate is not None:
            import torch

            model.eval()
            with torch.no_grad():
                evaluate(model)
            model.train()


def _checked(workload: Workload) -> "Callable[[torch.nn.Module, Any], torch.Tensor]":
    return lambda model, batch: _loss(workload, model, batch)


def _loss(workload: Workload, model: "torch.nn.Module", batch: Any) -> "torch.Tensor":
    if workload.step is not None:
        loss = workload.step(model, batch)
    else:
        assert workload.loss is not None  # Workload refuses to be made without both
        loss = JOINING.loss(workload.loss, model, batch, evaluates=workload.evaluate is not None)
    return check_loss(loss)


def check_loss(loss: Any) -> "torch.Tensor":
    """The loss itself, if it can be trained on.

    Raises:
        TypeError: It is no tensor.
        ValueError: It has several elements, needs no gradient, or is not finite at all.
    """
    import torch

    if not isinstance(loss, torch.Tensor):
        raise TypeError(f"step must return one finite scalar that needs grad, got {type(loss).__name__}")
    if loss.numel() != 1:
        raise ValueError(
            f"step must return one finite scalar that needs grad, got tensor(shape {list(loss.shape)})"
        )
    if not loss.requires_grad:
        raise ValueError("step must return one finite scalar that needs grad, got one without a graph")
    return loss


def moved(batch: Any, device: "torch.device") -> Any:
    """The batch on the device; ``cpu`` batches pass as they are."""
    if device.type == "cpu":
        return batch
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), batch)


def device_of(name: str) -> str:
    """torch's name of a device that may be ``auto``."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name
