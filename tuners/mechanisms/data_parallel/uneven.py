"""An epoch in which workers run out of batches at different times."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import each_tensor

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch.optim import Optimizer


@contextmanager
def equal_or_joined(
    model: Any, optimizer: "Optimizer", batches: int, group: "dist.ProcessGroup | None"
) -> Iterator[None]:
    """Around one epoch of a DistributedDataParallel model.

    Where all workers have equally many batches nothing is done: torch's ``Join`` costs two small messages
    per forward. Otherwise a worker without batches takes part in what the others send, with gradients of
    zero, which count in the mean as always. At the end it gets the parameters of the worker that made most
    updates (as ``Join`` does) and the state of its optimizer (which ``Join`` leaves as it is, so that the
    models would drift apart in the next epoch). A scheduler that is stepped on each update is not brought up
    to date.

    Args:
        model: The wrapped model.
        optimizer: Of this worker.
        batches: Batches that this worker has in the epoch.
        group: The workers.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.join import Join

    counts = torch.zeros(dist.get_world_size(group), dtype=torch.int64, device=model.device)
    counts[dist.get_rank(group)] = batches
    dist.all_reduce(counts, group=group)
    if counts.unique().numel() == 1:
        yield
        return
    with Join([model]):
        yield
    Join([model], enable=False)  # or each forward in evaluation would go on telling the others
    furthest = max(range(len(counts)), key=lambda rank: (int(counts[rank]), rank))
    for tensor in each_tensor([optimizer.state[each] for each in _in_order(optimizer)]):
        sent = tensor.to(model.device)  # Adam counts its steps on the CPU
        dist.broadcast(sent, furthest, group)
        if sent is not tensor:
            tensor.copy_(sent)


def _in_order(optimizer: "Optimizer") -> list[Any]:
    """Parameters that have state, in the order of the groups: the same on all workers."""
    return [each for group in optimizer.param_groups for each in group["params"] if each in optimizer.state]
