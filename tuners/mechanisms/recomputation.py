"""The forward of a block that keeps its inputs and computes the rest again in backward."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution")

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def recomputing(selective: bool, called: Callable[[], None]) -> Callable[..., Any]:
    """A function to bind to a block as its ``forward``.

    It looks the block's own forward up at each call, so that copies and pickles of the block are sound.

    Args:
        selective: Keep the results of matrix products and convolutions too. Attention is computed again: its
            dropout would be left out otherwise, and all later random numbers would be others.
        called: Called at each forward.
    """
    import torch
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    saved = [getattr(torch.ops.aten, name).default for name in PRODUCTS] if selective else []
    selecting = partial(create_selective_checkpoint_contexts, saved)
    caches = _cache_types()

    # The name is how pickle finds it again: as the forward of the class.
    def forward(self: "Module", *args: Any, **kwargs: Any) -> Any:
        called()
        own = type(self).forward
        if not (self.training and torch.is_grad_enabled()):
            return own(self, *args, **kwargs)
        args = tuple(None if isinstance(item, caches) else item for item in args)
        kwargs = {name: None if isinstance(item, caches) else item for name, item in kwargs.items()}
        if kwargs.get("use_cache"):
            kwargs["use_cache"] = False

        def run(*inputs: Any) -> Any:
            return own(self, *inputs, **kwargs)

        def contexts() -> Contexts:
            return _contexts(self, selecting if selective else None)

        if torch.compiler.is_compiling():  # where statistics are updated once in any case
            settings: dict[str, Any] = {"context_fn": selecting} if selective else {}
        else:
            settings = {"context_fn": contexts}
        return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=True, **settings)

    return forward


class StatisticsKept:
    """While entered, normalisation layers in training compute as ever but do not update their statistics.

    May be entered several times, one after the other: a graph can be walked twice.
    """

    def __init__(self, block: "Module") -> None:
        from torch.nn.modules.batchnorm import _NormBase

        self._norms: list[Any] = [
            module for module in block.modules()
            if isinstance(module, _NormBase) and module.training and module.running_mean is not None
        ]  # fmt: skip
        self._kept: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        self._kept = [(norm.momentum, norm.num_batches_tracked) for norm in self._norms]
        for norm in self._norms:
            norm.momentum, norm.num_batches_tracked = 0.0, None

    def __exit__(self, *exception: object) -> None:
        for norm, (momentum, count) in zip(self._norms, self._kept, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count


class _Both(ExitStack):
    """Several contexts as one that may be entered again."""

    def __init__(self, *contexts: AbstractContextManager[Any]) -> None:
        super().__init__()
        self._contexts = contexts

    def __enter__(self) -> "_Both":
        for context in self._contexts:
            self.enter_context(context)
        return self


def _contexts(block: "Module", selecting: Callable[[], Contexts] | None) -> Contexts:
    """Around the forward and around its repetition."""
    first, again = (nullcontext(), nullcontext()) if selecting is None else selecting()
    return first, _Both(StatisticsKept(block), again)


def _cache_types() -> tuple[type, ...]:
    """Stores of attention keys, which a second forward would fill again: those of transformers, if in use."""
    module = sys.modules.get("transformers.cache_utils")
    return () if module is None else (module.Cache,)
