"""The update of an optimizer as compiled code, within the hooks that torch puts around it."""

import inspect
import warnings
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

UNSUPPORTED = ("LBFGS", "SparseAdam")  # torch itself keeps these from being compiled


def refuse_uncompilable(profile: Profile) -> None:
    """Look at what is known of the optimizers before anything runs.

    Raises:
        Refused: The update of one of them cannot be compiled, or none is known.
    """
    if not profile.optimizers:
        raise Refused("parameters are updated without torch.optim")
    for facts in profile.optimizers:
        reason = _reason(
            facts.name,
            fused=bool(facts.fused),
            differentiable=facts.differentiable,
            closure=facts.closure,
            sparse=facts.sparse_gradients,
        )
        if reason is not None:
            raise Refused(reason)


def compile_update(optimizer: "Optimizer", **how: Any) -> None:
    """Let all optimizers of this one's class update by compiled code, from the present update on.

    Torch calls the update from inside a closure that it puts around each class's ``step``. Schedulers and
    programs hold that closure, so the function in it is replaced and nothing around it.

    Args:
        optimizer: About to update.
        how: Arguments of ``torch.compile``.

    Raises:
        Refused: Its update cannot be compiled.
    """
    import torch

    kind = type(optimizer)
    if not kind.__module__.startswith("torch.optim."):
        raise Refused(f"{kind.__name__} is none of torch's own optimizers")
    groups = optimizer.param_groups
    reason = _reason(
        kind.__name__,
        fused=any(group.get("fused") for group in groups),
        differentiable=any(group.get("differentiable") for group in groups),
        closure=False,
        sparse=any(p.grad is not None and p.grad.is_sparse for group in groups for p in group["params"]),
    )
    if reason is not None:
        raise Refused(reason)
    cell = _cell(kind)
    if isinstance(cell.cell_contents, _Compiled):
        return
    with warnings.catch_warnings():  # torch's compiler imports what torch marks as deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        cell.cell_contents = _Compiled(torch.compile(inspect.unwrap(kind.step), **how))


class _Compiled:
    """A compiled update, without what torch puts around updates to allow for differentiable ones.

    It meets each learning rate in a tensor, for torch compiles anew for every number that changes.
    """

    def __init__(self, update: Any) -> None:
        self._update = update
        self._rates: dict[tuple[int, int], Tensor] = {}

    def __call__(self, optimizer: "Optimizer", *args: Any, **kwargs: Any) -> Any:
        import torch

        numbers = []
        for at, group in enumerate(optimizer.param_groups):
            if isinstance(group.get("lr"), int | float) and group["params"]:
                numbers.append((group, group["lr"]))
                group["lr"] = self._in_tensor(group["lr"], (id(optimizer), at), group["params"][0])
        try:
            with torch.no_grad():
                return self._update(optimizer, *args, **kwargs)
        finally:
            for group, rate in numbers:
                group["lr"] = rate

    def _in_tensor(self, rate: float, place: tuple[int, int], parameter: "Tensor") -> "Tensor":
        """The rate of one group, always in the same tensor."""
        import torch

        if place not in self._rates:
            self._rates[place] = torch.tensor(rate, dtype=torch.float64, device=parameter.device)
        return self._rates[place].fill_(rate)


def _cell(kind: "type[Optimizer]") -> Any:
    """The variable that holds the real update of a class, in the closure with torch's hooks."""
    from torch.optim import Optimizer

    code = Optimizer.profile_hook_step(len).__code__
    step: Any = kind.step
    if getattr(step, "__code__", None) is not code:
        raise Refused(f"something else stands around the update of {kind.__name__}")
    return step.__closure__[code.co_freevars.index("func")]


def _reason(name: str, *, fused: bool, differentiable: bool, closure: bool, sparse: bool) -> str | None:
    """Why the update of an optimizer is not compiled; ``None`` where it can be."""
    if name in UNSUPPORTED:
        return f"torch does not compile the update of {name}"
    if fused:
        return f"{name} has a fused update, which is one kernel already and which torch does not compile"
    if differentiable:
        return f"{name} is differentiable, and only updates outside of autograd are compiled"
    if closure:
        return f"{name} calls a closure in its update"
    return f"{name} gets sparse gradients, which torch does not compile" if sparse else None
