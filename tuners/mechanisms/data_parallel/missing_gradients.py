"""Gradients averaged over workers of which some may lack one, without DistributedDataParallel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor

NONE, DENSE, SPARSE = 0, 1, 2


def average_gradients(parameters: "Sequence[Tensor]", group: "dist.ProcessGroup | None" = None) -> int:
    """Replace each gradient by its mean over the workers; one that a worker lacks counts as zeros there.

    Returns:
        How many of the parameters had no gradient on at least one worker.
    """
    import torch
    import torch.distributed as dist

    kinds = [_kind(parameter.grad) for parameter in parameters]
    least = torch.tensor(kinds, device=parameters[0].device)
    most = least.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN, group)
    dist.all_reduce(most, dist.ReduceOp.MAX, group)
    for parameter, kind in zip(parameters, most.tolist(), strict=True):
        if kind == NONE:
            continue
        if parameter.grad is None:
            parameter.grad = _zeros(parameter, sparse=kind == SPARSE)
        dist.all_reduce(parameter.grad.div_(dist.get_world_size(group)), group=group)
    return int((least == NONE).sum())


def _kind(gradient: "Tensor | None") -> int:
    if gradient is None:
        return NONE
    return SPARSE if gradient.is_sparse else DENSE


def _zeros(parameter: "Tensor", *, sparse: bool) -> "Tensor":
    """As a gradient: a sparse one has whole rows."""
    import torch

    if not sparse:
        return torch.zeros_like(parameter)
    places = torch.empty(1, 0, dtype=torch.int64, device=parameter.device)
    values = torch.empty(0, *parameter.shape[1:], dtype=parameter.dtype, device=parameter.device)
    return torch.sparse_coo_tensor(places, values, parameter.shape, check_invariants=False)
