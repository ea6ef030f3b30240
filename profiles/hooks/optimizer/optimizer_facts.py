"""What an optimizer is set to, what it holds, and its gradients: read from the object itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Location, OptimizerFacts
from advisor.profiles.hooks.tensors import each_tensor, total_bytes

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

NO_SETTINGS = ("params", "param_names", "name")  # of a group: what it is, not how it is updated


@dataclass(slots=True)
class Known:
    """An optimizer that has updated.

    ``lacking`` are parameters that had no gradient at any update looked at. Clearing gradients was timed
    between the updates ``cleared_from`` and ``cleared_to``. ``settled`` means that its updates end steps, and
    are only timed and counted. ``renewed`` counts those that were made at its line, for what it updates,
    after it had updated: each has taken its place.
    """

    optimizer: "Optimizer"
    position: int
    settings: OptimizerFacts
    closure: bool
    lacking: "dict[int, Tensor]"
    updates: int = 0
    cleared_from: int | None = None
    cleared_to: int = 0
    clear_ns: int = 0
    zeroes: bool | None = None
    settled: bool = False
    renewed: int = 0


def optimizer_facts(optimizer: "Optimizer", closure: bool = False) -> OptimizerFacts:
    """An optimizer's settings as the program made them, read before its first update."""
    group = optimizer.param_groups[0]
    rate = group.get("lr")
    return OptimizerFacts(
        name=type(optimizer).__name__,
        lr=None if rate is None else float(rate),
        foreach=group.get("foreach"),
        fused=group.get("fused"),
        has_foreach="foreach" in group,
        has_fused="fused" in group,
        differentiable=bool(group.get("differentiable", False)),
        sparse_gradients=any(gradient.is_sparse for gradient in gradients(optimizer)),
        closure=closure,
        groups=len(optimizer.param_groups),
        distinct_groups=len({_settings(each) for each in optimizer.param_groups}),
    )


def described(record: Known, location: Location | None) -> OptimizerFacts:
    """Settings of an optimizer, and what it holds and has done so far; ``location`` is where it was made."""
    held = {id(parameter): parameter for parameter in parameters(record.optimizer)}.values()
    looked = record.updates > 0
    clears = 0 if record.cleared_from is None else record.cleared_to - record.cleared_from + 1
    return replace(
        record.settings,
        parameters=sum(parameter.numel() for parameter in held),
        parameter_bytes=bytes_of(held),
        state_bytes=state_bytes(record.optimizer),
        without_gradient_bytes=bytes_of(record.lacking.values()) if looked else None,
        zeroes_gradients=record.zeroes,
        zero_grad_ms=record.clear_ns / clears / 1e6 if clears else None,
        location=location,
        renewed=record.renewed,
        updates=record.updates,
    )


def parameters(optimizer: "Optimizer") -> Iterator["Tensor"]:
    """Every parameter that it updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def gradients(optimizer: "Optimizer") -> list["Tensor"]:
    """The gradients that are there now."""
    return [parameter.grad.detach() for parameter in parameters(optimizer) if parameter.grad is not None]


def state_bytes(optimizer: "Optimizer") -> int:
    """Bytes of all tensors in its state, such as momenta."""
    return sum(total_bytes(state) for state in optimizer.state.values())


def bytes_of(tensors: Iterable["Tensor"]) -> int:
    """Bytes of distinct tensors; of sparse ones, of what they hold."""
    distinct = {id(tensor): tensor for tensor in tensors}.values()
    return sum(total_bytes(_dense(tensor)) for tensor in distinct)


def total_norm(optimizer: "Optimizer") -> "Tensor | None":
    """Euclidean norm over all gradients of an optimizer, left on the device; ``None`` without any."""
    import torch

    found = gradients(optimizer)
    if not found:
        return None
    dense = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in found]
    kinds: dict[type, list[Tensor]] = {}
    for gradient in dense:  # those divided among ranks cannot be mixed with whole ones
        kinds.setdefault(type(gradient), []).append(gradient)
    norms: list[Any] = [torch.nn.utils.get_total_norm(alike) for alike in kinds.values()]
    if len(norms) > 1:
        whole = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
        norms = [torch.nn.utils.get_total_norm(whole)]
    total: Tensor = norms[0]
    return total


def first_nonfinite(optimizer: "Optimizer") -> "Tensor | None":
    """The first parameter whose gradient holds NaN or infinity; reads the device."""
    for parameter in parameters(optimizer):
        if parameter.grad is None:
            continue
        if not all(bool(part.isfinite().all()) for part in each_tensor(_dense(parameter.grad.detach()))):
            return parameter
    return None


def _settings(group: dict[str, Any]) -> str:
    """What an update reads of a group beside its parameters."""
    return repr(sorted((name, value) for name, value in group.items() if name not in NO_SETTINGS))


def _dense(tensor: "Tensor") -> Any:
    if not tensor.is_sparse:
        return tensor
    return [tensor._indices(), tensor._values()]
