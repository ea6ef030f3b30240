"""Models with a method ``generate`` of their own, in which they call themselves once for each token."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from advisor.profiles.hooks.patches import Patch, untraced

NAME = "generate"
WATCHED = "transformers."  # its models inherit theirs, which is watched where it is defined


class OwnGenerate:
    """Wraps ``generate`` of the classes of models that are made or restored.

    Args:
        wrap: Given ``generate`` as it was, returns what stands in its place.
    """

    def __init__(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        import torch

        self._wrap = wrap
        self._makers = [Patch(torch.nn.Module, name, self._after) for name in ("__init__", "__setstate__")]
        self._classes: dict[type, Patch] = {}

    def install(self) -> None:
        """Watch from now on."""
        for patch in self._makers:
            patch.install()

    def remove(self) -> None:
        """Leave every class as it was."""
        for patch in (*self._makers, *self._classes.values()):
            patch.remove()
        self._classes.clear()

    def _after(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(module: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(module, *args, **kwargs)
            if self._makers[0].installed:
                self._meet(type(module))
            return made

        return untraced(make)

    def _meet(self, kind: type) -> None:
        owner = next((each for each in kind.__mro__ if NAME in vars(each)), None)
        if owner is None or owner in self._classes or owner.__module__.startswith(WATCHED):
            return
        own = vars(owner)[NAME]
        if isinstance(own, FunctionType) and not inspect.isgeneratorfunction(own):
            patch = self._classes[owner] = Patch(owner, NAME, lambda own: untraced(self._wrap(own)))
            patch.install()
