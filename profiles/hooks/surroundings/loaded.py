"""Which checkpoints a program resumes from: where it has nothing left to do, they say why."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from advisor.profiles.hooks.patches import Patch

MOST = 8  # files


class Loaded:
    """Notes the files that ``torch.load`` reads a place of training from: more than the tensors of a model.

    Attributes:
        files: As the program named them, in the order of loading; the last ones.
    """

    def __init__(self) -> None:
        self.files: list[str] = []

    def install(self, torch: ModuleType) -> None:
        """Listen from now on."""
        for owner in (torch, torch.serialization):
            Patch(owner, "load", self._wrap).install()

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(f, *args, **kwargs)
            name = f if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
            if isinstance(name, str | os.PathLike) and _tells_a_place(found):
                self.files = [*self.files[1 - MOST :], os.fspath(name)]
            return found

        return load


def _tells_a_place(found: Any) -> bool:
    """Whether it holds a count of steps or epochs, or the state of an optimizer."""
    if type(found) is not dict:
        return False
    return any(type(value) is int or "optim" in str(key) for key, value in found.items())
