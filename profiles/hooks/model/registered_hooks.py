"""Hooks that the program registers on modules and tensors: how many there are, and which line adds most."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.patches import Patch, Scope, untraced
from advisor.profiles.hooks.user_lines import user_location

if TYPE_CHECKING:
    from torch.nn import Module

OF_MODULE = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
OF_PARAMETER = ("_backward_hooks", "_post_accumulate_grad_hooks")


class RegisteredHooks:
    """Counts by line what is registered: each registration makes torch's handle for its removal."""

    def __init__(self, scope: Scope) -> None:
        from torch.utils.hooks import RemovableHandle

        self._scope = scope
        self._lines: Counter[Location] = Counter()
        self.patches = [Patch(RemovableHandle, "__init__", self._wrap)]

    @property
    def location(self) -> Location | None:
        """The line that registered most since ``forget``."""
        return max(self._lines, key=lambda line: self._lines[line], default=None)

    def forget(self) -> None:
        """What was registered before training began is no matter."""
        self._lines.clear()

    def install(self) -> None:
        """Count from now on."""
        for patch in self.patches:
            patch.install()

    def remove(self) -> None:
        """Count no longer."""
        for patch in self.patches:
            patch.remove()

    def _wrap(self, original: Callable[..., None]) -> Callable[..., None]:
        def register(*args: Any, **kwargs: Any) -> None:
            if self._scope.here():
                place = user_location(sys._getframe(1), beyond_us=False)  # ours are none of the program's
                if place is not None:
                    self._lines[place] += 1
            original(*args, **kwargs)

        return untraced(register)


def count_hooks(roots: "Iterable[Module]") -> int:
    """Of all modules and parameters below the roots, ours among them."""
    counted = 0
    for root in roots:
        for module in root.modules():
            counted += sum(len(getattr(module, name)) for name in OF_MODULE)
            for parameter in module._parameters.values():
                if parameter is not None:
                    counted += sum(len(getattr(parameter, name, None) or ()) for name in OF_PARAMETER)
    return counted
