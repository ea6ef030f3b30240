"""Which module owns the parameters that an optimizer updates."""

import gc
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


def owner(optimizer: "Optimizer") -> "Module | None":
    """The smallest live module that holds all parameters of an optimizer.

    Of several with the same parameters the one that contains the others: it is what the program calls.
    All objects known to the garbage collector are looked at (about 0.1 s).

    Returns:
        ``None`` where the parameters belong to no module, or to several.
    """
    wanted = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    holders = [(module, _parameter_ids(module)) for module in _live_modules()]
    covering = [(module, held) for module, held in holders if wanted and wanted <= held]
    if not covering:
        return None
    smallest = min(len(held) for _, held in covering)
    tied = [module for module, held in covering if len(held) == smallest]
    return max(tied, key=lambda module: len(member_ids(module)))


def is_optimized(modules: "Iterable[Module]") -> bool:
    """Whether a live optimizer holds a parameter of any of these modules; as slow as ``owner``."""
    from torch.optim import Optimizer

    held = {key for module in modules for key in _parameter_ids(module)}
    optimizers = [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return any(id(parameter) in held for group in groups for parameter in group["params"])


def member_ids(module: "Module") -> frozenset[int]:
    """Identities of a module and all modules inside it."""
    from torch.nn import Module

    return frozenset(id(member) for member in Module.modules(module))


def _live_modules() -> list["Module"]:
    from torch.nn import Module

    # type(), never isinstance(): that asks __class__, which lazy proxies answer by importing things
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), Module)]
    return [module for module in found if "_modules" in vars(module)]


def _parameter_ids(module: "Module") -> frozenset[int]:
    from torch.nn import Module

    return frozenset(id(parameter) for parameter in Module.parameters(module))
