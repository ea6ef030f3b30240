"""A forward that stands on the module itself, wrapped there without being copied or pickled along.

``torch.compile`` and accelerate put a function on the instance, where no wrapper of the class is reached.
"""

import copy
import operator
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.patches import untraced

if TYPE_CHECKING:
    from torch.nn import Module

Enter = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class Passage:
    """Stands in the instance's place for ``function``; copies and pickles as that function.

    Args:
        module: The module, held weakly.
        slot: Name of the attribute that holds the function.
        enter: Called as ``enter(module, function, args, kwargs)``.
    """

    def __init__(self, module: "Module", slot: str, enter: Enter) -> None:
        self._module = weakref.ref(module)
        self._slot = slot
        self._enter = enter
        self.__wrapped__ = module.__dict__[slot]  # what inspect.signature follows
        module.__dict__[slot] = self
        untraced(Passage.__call__)

    @staticmethod
    def place(module: "Module") -> str | None:
        """The attribute that a call of ``module`` takes in place of its class's forward, if any."""
        if getattr(module, "_compiled_call_impl", None) is not None:
            return "_compiled_call_impl"
        return "forward" if "forward" in module.__dict__ else None

    def remove(self) -> None:
        """Put the function back, unless something else stands there now."""
        module = self._module()
        if module is not None and module.__dict__.get(self._slot) is self:
            module.__dict__[self._slot] = self.__wrapped__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Enter the event of the root, which calls the function inside."""
        return self._enter(self._module(), self.__wrapped__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__wrapped__"], name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.__wrapped__, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.itemgetter(0), ((self.__wrapped__,),)
