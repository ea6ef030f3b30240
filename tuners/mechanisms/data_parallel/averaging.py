"""Models of several workers, averaged."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor


def average(parameters: "Iterable[Tensor]", workers: int, group: "dist.ProcessGroup | None" = None) -> None:
    """Replace every trained parameter by its mean over the workers; one message for each type and device."""
    import torch
    import torch.distributed as dist

    trained = [parameter.detach() for parameter in parameters if parameter.requires_grad]
    trained.sort(key=_kind)
    for _, alike in groupby(trained, _kind):
        tensors = list(alike)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).div_(workers)
        dist.all_reduce(flat, group=group)
        for tensor, mean in zip(tensors, flat.split([each.numel() for each in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))


def _kind(tensor: "Tensor") -> tuple[str, str]:
    return str(tensor.dtype), str(tensor.device)
