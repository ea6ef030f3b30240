"""Random generators: seeded at the start, and the program's own seeds shifted when asked."""

import random
import sys
from collections.abc import Callable
from typing import Any

from advisor.profiles.hooks.patches import Patch, Scope

NUMPY_SEEDS = 2**32  # numpy accepts seeds below this


class Seeds:
    """Seeds Python, numpy and torch, and adds an offset to every seed that the program sets itself.

    Shifted runs show how much the results of a program vary by chance. Generators that the program
    constructs on its own (``torch.Generator``) keep their seeds.

    Args:
        scope: What is watched.
        seed: Set at ``install`` on ``random``, ``numpy.random`` and torch; ``None`` leaves them alone.
        offset: Added to whole-number seeds of the program; 0 changes nothing.
    """

    def __init__(self, scope: Scope, seed: int | None, offset: int) -> None:
        self._scope = scope
        self._seed = seed
        self._offset = offset
        self._inside = False
        self.patches: list[Patch] = []

    def install(self) -> None:
        """Seed now; shift from now on."""
        import torch

        numpy = sys.modules.get("numpy")
        if self._seed is not None:
            random.seed(self._seed)
            torch.manual_seed(self._seed)
            if numpy is not None:
                numpy.random.seed(self._seed % NUMPY_SEEDS)
        if self._offset:
            owners: list[tuple[Any, str, int | None]] = [
                (torch, "manual_seed", None),
                (torch.random, "manual_seed", None),
                (torch.cuda, "manual_seed", None),
                (torch.cuda, "manual_seed_all", None),
                (random, "seed", None),
            ]
            if numpy is not None:
                owners += [(numpy.random, "seed", NUMPY_SEEDS), (numpy.random, "default_rng", None)]
            self.patches = [Patch(owner, name, self._shifting(limit)) for owner, name, limit in owners]
            for patch in self.patches:
                patch.install()

    def remove(self) -> None:
        """Let the program's seeds pass unchanged again."""
        for patch in self.patches:
            patch.remove()

    def _shifting(self, limit: int | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def shifted(*args: Any, **kwargs: Any) -> Any:
                if self._inside or not self._scope.active:  # torch's seeding calls that of CUDA
                    return original(*args, **kwargs)
                self._inside = True
                try:
                    first = [self._shift(value, limit) for value in args[:1]]
                    named = {
                        name: self._shift(value, limit) if name in ("a", "seed") else value
                        for name, value in kwargs.items()
                    }
                    return original(*first, *args[1:], **named)
                finally:
                    self._inside = False

            return shifted

        return wrap

    def _shift(self, value: Any, limit: int | None) -> Any:
        if type(value) is not int or value < 0:
            return value
        return (value + self._offset) % limit if limit else value + self._offset
