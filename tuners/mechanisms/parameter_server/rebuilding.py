"""An optimizer read back into its class and arguments, to make others of the same kind from them."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Refused

if TYPE_CHECKING:
    from torch.optim import Optimizer

PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True)
class Recipe:
    """What an optimizer was made from.

    Attributes:
        original: The optimizer that was read.
        kind: Its class.
        groups: Its parameter groups, each with all of its settings.
        arguments: Those of its defaults that the class takes as arguments.
    """

    original: "Optimizer"
    kind: "type[Optimizer]"
    groups: list[dict[str, Any]]
    arguments: dict[str, Any]

    def check(self, rebuilt: "Optimizer") -> None:
        """Compare another one, made from this recipe, with the original.

        Raises:
            Refused: They differ in a setting, so the class keeps some of it elsewhere.
        """
        ours, theirs = _settings(self.original), _settings(rebuilt)
        for name in sorted(ours.keys() | theirs.keys()):
            if repr(ours.get(name)) != repr(theirs.get(name)):
                raise Refused(
                    f"{self.kind.__name__} cannot be built again from its settings: {name} would be "
                    f"{theirs.get(name)!r}, not {ours.get(name)!r}"
                )


def recipe_of(optimizer: "Optimizer") -> Recipe:
    """Read an optimizer that has not updated yet.

    Raises:
        Refused: It carries hooks, which a second one would not have.
    """
    kind = type(optimizer)
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise Refused(f"hooks are registered on the {kind.__name__}, and another one would not have them")
    groups = [dict(group) for group in optimizer.param_groups]
    return Recipe(optimizer, kind, groups, accepted(kind, optimizer.defaults))


def accepted(kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that the class takes as arguments.

    Some classes hand fixed settings to their base: ``AdamW`` has ``decoupled_weight_decay`` among its
    defaults, and takes no such argument.
    """
    parameters = inspect.signature(kind).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(settings)
    return {name: value for name, value in settings.items() if name in parameters}


def _settings(optimizer: "Optimizer") -> dict[str, Any]:
    """Plain attributes of an optimizer and the settings of its groups, by name."""
    found = {name: value for name, value in vars(optimizer).items() if isinstance(value, PLAIN)}
    for number, group in enumerate(optimizer.param_groups):
        found |= {f"{name} of group {number}": value for name, value in group.items() if name != "params"}
    return found
