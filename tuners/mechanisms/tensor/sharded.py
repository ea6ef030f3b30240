"""Layers whose parameters are divided among workers as DTensors, beside others that each holds whole."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_reduce
from advisor.tuners.mechanisms.tensor.linear_groups import LinearGroup

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.optim import Optimizer


def divide(model: nn.Module, groups: Iterable[LinearGroup], mesh: "DeviceMesh") -> None:
    """Give each worker its columns of the first layers of each group and its rows of the last one."""
    for group in groups:
        plan: dict[str, Any] = {name: ColwiseParallel() for name in group.columns}
        plan[group.rows] = RowwiseParallel()
        parallelize_module(model, mesh, plan)
        for name in group.between:
            own = vars(model.get_submodule(name))
            if own.get("inplace"):  # what a layer hands out is a view of its DTensor, not to be changed
                own["inplace"] = False


def outputs_apart(model: nn.Module, groups: Iterable[LinearGroup]) -> None:
    """Hand out copies of what divided layers compute, for programs that change it in place.

    The local part of a DTensor is a view, which autograd lets nobody change.
    """
    for group in groups:
        for name in group.names:
            model.get_submodule(name).register_forward_hook(_copied)


def separate(optimizer: "Optimizer") -> None:
    """Make groups of either DTensors or plain tensors: updates over many tensors at once take no mixture."""
    groups = []
    for group in optimizer.param_groups:
        kinds = [isinstance(parameter, DTensor) for parameter in group["params"]]
        for kind in sorted(set(kinds)):
            members = [each for each, own in zip(group["params"], kinds, strict=True) if own is kind]
            groups.append({**group, "params": members})
    optimizer.param_groups[:] = groups


def clip(parameters: Iterable[Tensor], limit: float, group: "dist.ProcessGroup | None") -> None:
    """Limit the norm of all gradients together; what is divided counts with all its parts."""
    divided: list[Tensor] = []
    whole: list[Tensor] = []
    for parameter in parameters:
        gradient = parameter.grad
        if isinstance(gradient, DTensor):
            is_part = any(isinstance(placement, Shard) for placement in gradient.placements)
            (divided if is_part else whole).append(gradient.to_local())
        elif gradient is not None:
            whole.append(gradient)
    if not divided and not whole:
        return
    square = torch.zeros((), dtype=torch.float64, device=(divided or whole)[0].device)
    for gradient in divided:
        square += torch.linalg.vector_norm(gradient, dtype=torch.float64) ** 2
    dist.all_reduce(square, group=group)
    for gradient in whole:
        square += torch.linalg.vector_norm(gradient, dtype=torch.float64) ** 2
    factor = torch.clamp(limit / (square.sqrt() + 1e-6), max=1.0)
    for gradient in [*divided, *whole]:
        gradient.mul_(factor.to(gradient.dtype))


class Traffic:
    """Counts what layers of some groups exchange in the first update, for all that follow.

    The last layer of a group sums its output over workers in forward; each of the first ones sums the
    gradient of its input in backward, those that were handed one DTensor together.
    """

    def __init__(self, model: nn.Module, groups: Sequence[LinearGroup], workers: int) -> None:
        self._workers = workers
        self._summed = 0
        self._known: int | None = None
        self._handles = [
            model.get_submodule(name).register_forward_pre_hook(self._column, prepend=True)
            for group in groups
            for name in group.columns
        ]
        self._handles += [
            model.get_submodule(group.rows).register_forward_hook(self._row) for group in groups
        ]

    def restart(self) -> None:
        """The forward that was counted is computed again."""
        self._summed = 0

    def updated(self) -> None:
        """An update was made."""
        if self._known is None:
            self._known = self._summed
            for handle in self._handles:
                handle.remove()

    @property
    def bytes_per_update(self) -> int:
        """Sent by each worker."""
        return round(all_reduce(self._known or 0, self._workers))

    def _column(self, layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        inputs = arguments[0]
        counted = getattr(inputs, "counted", False)
        if torch.is_grad_enabled() and inputs.requires_grad and not counted:
            self._summed += inputs.numel() * inputs.element_size()
            if isinstance(inputs, DTensor):
                inputs.counted = True  # type: ignore[attr-defined]  # a mark of ours

    def _row(self, layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        if torch.is_grad_enabled():
            self._summed += output.numel() * output.element_size()


def _copied(layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
    return output.clone()


def held_by_all(tensor: Tensor, mesh: "DeviceMesh") -> DTensor:
    """A DTensor of what every worker holds; gradients from its users are summed over workers once."""
    return DTensor.from_local(tensor, mesh, [Replicate()], run_check=False)
