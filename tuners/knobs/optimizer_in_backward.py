"""Updates that run inside the backward pass."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.computed import gradient_norms
from advisor.tuners.on_off_knob import Switch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

CODE = (
    "optimizers = {p: torch.optim.AdamW([p], lr=lr) for p in model.parameters()}\n"
    "def update(p):\n"
    "    optimizers[p].step()\n"
    "    optimizers[p].zero_grad()\n"
    "for p in model.parameters():\n"
    "    p.register_post_accumulate_grad_hook(update)\n"
    "# and no optimizer.step() in the loop"
)
BY_HAND = (
    "a script keeps the update that it makes; write it yourself: an optimizer for every parameter, "
    "`p.register_post_accumulate_grad_hook(lambda p: (optimizers[p].step(), optimizers[p].zero_grad()))`, "
    "and no optimizer.step() in the loop"
)
ACCUMULATED = "gradients of several backward passes make one update"


class OptimizerInBackward(Switch):
    """Updates each parameter as soon as its gradient is complete, and frees the gradient at once.

    Gradients of all parameters then never exist together, which saves the memory of one copy of the
    parameters. It costs one small update per parameter. Tried only when it is named; it was not measured.

    The numbers are those of the update after backward, as long as nobody needs all gradients together:
    clipping by norm, accumulation over several backward passes and loss scaling are refused. In scripts
    it is a change of the program, so there it is advice only. The first step still updates at its end.
    """

    semantics = Semantics.ROUNDING
    named_only = True
    acts_on = ("backward", "optimizer")

    def refusal(self, profile: Profile) -> str | None:
        run, norms = profile.run, gradient_norms(profile)
        if profile.target_kind == "script":
            return BY_HAND
        if not profile.optimizers:
            return "parameters are updated without torch.optim"
        if len(profile.optimizers) > 1:
            return "several optimizers update; which of them a backward belongs to is not known"
        if profile.optimizers[0].closure:
            return "the optimizer calls backward inside its step"
        if profile.optimizers[0].differentiable:
            return "updates are differentiable, so gradients must outlive them"
        if run is not None and run.backwards_per_step > 1:
            return ACCUMULATED
        if run is not None and run.own_scaler:
            return "the program scales its loss, and gradients must be divided before an update"
        if norms is None:
            return "no operators were recorded, so whether the program clips gradients is not known"
        if norms != "none":
            return "norms over all gradients are taken between backward and update, as for clipping"
        return None

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: One of them acts on gradients or updates after backward.
        """
        if config.get("amp") == "fp16":
            raise Refused("gradients under fp16 must be divided by the scale before an update")
        if config.get("lr_scaling", "none") != "none":
            raise Refused("the learning rate is scaled around an update after backward only")
        if config.get("accumulation", present.get("accumulation")) != present.get("accumulation"):
            raise Refused(ACCUMULATED)

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Let every parameter be updated by a hook from the next backward on.

        ``step`` of the program then finds no gradients and does nothing.

        Raises:
            Refused: The optimizer may look at several gradients together.
        """
        if value == "off":
            return
        name = type(optimizer).__name__
        if not type(optimizer).__module__.startswith("torch.optim.") or name == "LBFGS":
            raise Refused(f"{name} may need the gradients of all parameters together")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(_update(optimizer, group))

    def change(self, value: str) -> Change:
        return Change(CODE if value == "on" else "# call optimizer.step() after loss.backward()")


def _update(optimizer: "Optimizer", group: dict[str, Any]) -> Callable[["Tensor"], None]:
    """A hook that makes the optimizer's own update for one parameter, with its group's present settings."""
    import torch

    step = inspect.unwrap(type(optimizer).step)  # without the hooks that take it for an update of its own

    def update(parameter: "Tensor") -> None:
        groups = optimizer.param_groups
        optimizer.param_groups = [{**group, "params": [parameter]}]
        try:
            with torch.no_grad():
                step(optimizer)
        finally:
            optimizer.param_groups = groups
        parameter.grad = None

    return update
