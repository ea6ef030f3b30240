"""Denormal numbers in parameters, gradients and optimizer state, and what they cost on this processor."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from advisor.profiles.facts.observed import Denormals

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

SAMPLED = 4096  # elements of a tensor
SIDE = 256  # of the product that is timed
TURNS = 5


def denormals(modules: Iterable["Module"], optimizers: Iterable["Optimizer"]) -> Denormals | None:
    """Where they are; ``None`` where there are none, or they are flushed. To be called between two steps.

    Args:
        modules: Roots of the program; only tensors on the CPU are looked at, by samples.
        optimizers: Whose state is looked at.
    """
    import torch

    states = {parameter: state for each in optimizers for parameter, state in each.state.items()}
    named = {parameter: name for module in modules for name, parameter in module.named_parameters()}
    whole = sum(parameter.numel() for parameter in named)
    found: list[tuple[float, str, str, Tensor]] = []
    touched = 0
    for parameter, name in named.items():
        shares = [
            (share, name, kind, tensor)
            for kind, tensor in _tensors(parameter, states.get(parameter, {}))
            if (share := _share(tensor)) > 0
        ]
        found += shares
        touched += parameter.numel() if shares else 0
    if not found or _flushed():
        return None
    share, name, kind, tensor = max(found, key=lambda each: each[0])
    updated = [each for each in found if each[2] != "gradient"]
    with torch.no_grad():
        slower = max((_slowdown(each[3], _update) for each in _worst_of_kinds(updated)), default=1.0)
        return Denormals(name, share, kind, touched / whole, _slowdown(tensor, _product), slower)


def _worst_of_kinds(
    found: list[tuple[float, str, str, "Tensor"]],
) -> Iterable[tuple[float, str, str, "Tensor"]]:
    return {each[2]: each for each in sorted(found, key=lambda each: each[0])}.values()


def _tensors(parameter: "Tensor", state: object) -> Iterator[tuple[str, "Tensor"]]:
    import torch

    yield "parameter", parameter
    if parameter.grad is not None:
        yield "gradient", parameter.grad
    for value in state.values() if isinstance(state, dict) else ():
        if isinstance(value, torch.Tensor):
            yield "state", value


def _share(tensor: "Tensor") -> float:
    import torch

    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or not tensor.is_floating_point():
        return 0.0
    flat = tensor.detach().reshape(-1)
    if not len(flat):
        return 0.0
    # Rows and columns have one size often: an odd stride meets all of them.
    sample = flat[:: (len(flat) // SAMPLED) | 1].abs()
    return float(((sample > 0) & (sample < torch.finfo(tensor.dtype).tiny)).float().mean())


def _flushed() -> bool:
    import torch

    small = torch.full((4,), torch.finfo(torch.float32).tiny)
    return not bool((small * 0.25).any())


def _product(part: "Tensor") -> Callable[["Tensor"], object]:
    other = part.new_ones(SIDE, SIDE)
    return lambda factor: factor @ other


def _update(part: "Tensor") -> Callable[["Tensor"], object]:
    """What optimizers do: decay, and of what is a mean of squares a root."""
    rooted = bool((part >= 0).all())
    return lambda state: (state * 0.9).sqrt() if rooted else state * 0.9


def _slowdown(tensor: "Tensor", kind: Callable[["Tensor"], Callable[["Tensor"], object]]) -> float:
    """Time of some work with elements of the tensor over that with zeros for those that are denormal."""
    import torch

    flat = tensor.detach().reshape(-1)
    part = flat[torch.arange(SIDE * SIDE) % len(flat)].reshape(SIDE, SIDE).clone()
    clean = torch.where(part.abs() < torch.finfo(part.dtype).tiny, torch.zeros_like(part), part)
    work = kind(clean)
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(TURNS):
        for is_clean, factor in ((True, clean), (False, part)):
            began = time.perf_counter()
            work(factor)
            times[is_clean].append(time.perf_counter() - began)
    return max(1.0, min(times[False]) / min(times[True]))
