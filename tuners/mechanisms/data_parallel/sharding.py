"""Models whose parameters are divided among workers by ``fully_shard``."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_gather, reduce_scatter

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch import Tensor
    from torch.nn import Module

CONTAINER = "the model is a container without a forward, around which nothing can be gathered"
SCRIPTED = "a scripted module cannot be sharded"
SCALAR = "a parameter is a scalar, which has no dimension to be divided along"
STRIDED = "a parameter is not contiguous in memory, and fully_shard takes no other"
SHARED = "blocks share parameters with each other or with the rest of the model, and one unit must hold them"


@dataclass(frozen=True)
class Unit:
    """Parameters that are gathered, and whose gradients are reduced, in one collective each.

    Attributes:
        gathered: Bytes of the parameters as they travel.
        reduced: Bytes of the gradients as they travel.
        gathers: How often they are gathered for one forward and backward.
    """

    gathered: int
    reduced: int
    gathers: int

    def sent(self, workers: int, *, gloo: bool) -> float:
        """Bytes that one of the workers sends in one forward and backward."""
        gathering = self.gathers * all_gather(self.gathered, workers)
        return gathering + reduce_scatter(self.reduced, workers, gloo=gloo)


def refuse_unshardable(model: "Module", blocks: "Sequence[Module]") -> None:
    """Look at a model of which these blocks are to be units of their own.

    Raises:
        Refused: ``fully_shard`` does not take it, or would untie what blocks share.
    """
    from torch.jit import ScriptModule
    from torch.nn import ModuleDict, ModuleList

    parameters = list(model.parameters())
    types = {str(each.dtype).removeprefix("torch.") for each in parameters if each.requires_grad}
    if isinstance(model, (ModuleDict, ModuleList)):
        raise Refused(CONTAINER)
    if any(isinstance(module, ScriptModule) for module in model.modules()):
        raise Refused(SCRIPTED)
    if any(parameter.dim() == 0 for parameter in parameters):
        raise Refused(SCALAR)
    if not all(parameter.is_contiguous() for parameter in parameters):
        raise Refused(STRIDED)
    if len(types) > 1:
        raise Refused(f"fully_shard takes parameters of one type, not of {', '.join(sorted(types))}")
    if _share_parameters(model, blocks):
        raise Refused(SHARED)


def unit_of(
    parameters: "Iterable[Tensor]",
    gathers: int,
    gathered_as: "torch.dtype | None" = None,
    reduced_as: "torch.dtype | None" = None,
) -> Unit:
    """What travels for these parameters, before they are sharded; in other types where those are given."""
    distinct = list({id(parameter): parameter for parameter in parameters}.values())
    trained = [parameter for parameter in distinct if parameter.requires_grad]
    return Unit(_bytes_as(distinct, gathered_as), _bytes_as(trained, reduced_as), gathers)


def clip_shards(
    parameters: "Iterable[Tensor]", limit: float, device: str, group: "dist.ProcessGroup | None"
) -> None:
    """Limit the norm of gradients of which each worker holds a part, wherever that part lies.

    torch's ``clip_grad_norm_`` reduces norms where the gradients are. Offloaded ones are on the CPU, where
    NCCL reaches nothing: here the norm alone goes to ``device``.
    """
    import torch
    import torch.distributed as dist

    with torch.no_grad():
        gradients: list[Any] = [each.grad for each in parameters if each.grad is not None]
        shards = [gradient.to_local() for gradient in gradients]
        squared = torch.nn.utils.get_total_norm(shards).square().to(device)
        dist.all_reduce(squared, group=group)
        factor = (limit / (squared.sqrt() + 1e-6)).clamp(max=1.0)  # as torch's clip_grad_norm_ has it
        for shard in shards:
            shard.mul_(factor.to(shard.device))


def _share_parameters(model: "Module", blocks: "Sequence[Module]") -> bool:
    owners = Counter(id(module) for block in blocks for module in set(block.modules()))
    if any(count > 1 for count in owners.values()):
        return True
    unit_by_module = {id(module): id(block) for block in blocks for module in block.modules()}
    unit_by_parameter: dict[int, int] = {}
    for module in model.modules():
        unit = unit_by_module.get(id(module), id(model))
        for parameter in module.parameters(recurse=False):
            if unit_by_parameter.setdefault(id(parameter), unit) != unit:
                return True
    return False


def _bytes_as(tensors: "Iterable[Tensor]", dtype: "torch.dtype | None") -> int:
    return sum(
        tensor.numel() * (dtype if dtype and tensor.is_floating_point() else tensor.dtype).itemsize
        for tensor in tensors
    )
