"""Which modules a program calls from outside any other module, watched until the first backward.

Not by global forward hooks: those run after the forward has been looked up, so the first call would
escape, and a compiled module warns of them. ``Module.__call__`` is wrapped for that short time instead,
and stands unwrapped while an outermost module runs or dynamo compiles: dynamo never meets the wrapper.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.patches import Patch, Scope, untraced

if TYPE_CHECKING:
    from torch.nn import Module

DYNAMO_COPIES = ("torch._dynamo.utils", "torch._dynamo.variables.nn_module")
DEVICES = ("cpu", "cuda")


class Discovery:
    """Reports modules with trainable parameters that are called while no other one runs.

    Args:
        scope: What is watched.
        found: Told of a module in training with gradients, before it runs.
        evaluate: Runs ``(module, function, args, kwargs)`` of a module in evaluation, or without gradients.
        busy: Whether a root is running.
        autocast: Told of the type of every enabled autocast that is entered.
        serves: The models answer requests: what counts is every one with parameters, also in evaluation.
    """

    def __init__(
        self,
        scope: Scope,
        found: Callable[["Module"], None],
        evaluate: Callable[["Module", Callable[..., Any], Any, Any], Any],
        busy: Callable[[], bool],
        autocast: Callable[[str], None],
        *,
        serves: bool = False,
    ) -> None:
        import torch

        self._scope = scope
        self._found = found
        self._evaluate = evaluate
        self._busy = busy
        self._autocast = autocast
        self._serves = serves
        self._call = Patch(torch.nn.Module, "__call__", self._wrap_call)
        self._enter = Patch(torch.autocast, "__enter__", self._wrap_enter)
        self._compile = Patch(torch, "compile", self._wrap_compile)
        self._on = False
        self._pauses = 0
        self._dynamo: Any = None

    def install(self) -> None:
        """Watch calls from now on."""
        self._call.install()
        self._compile.install()
        self._enter.install()
        self._on = True

    def remove(self) -> None:
        """Watch no longer; called at every backward, so it returns at once when off."""
        if not self._on:
            return
        self._on = False
        self._call.remove()
        self._compile.remove()
        self._enter.remove()
        self._mend_dynamo()
        if self._dynamo is not None:
            self._dynamo.remove_start_callback(self._pause)
            self._dynamo.remove_end_callback(self._resume)
            self._dynamo = None

    @contextmanager
    def _suspended(self) -> Iterator[None]:
        self._pause()
        try:
            yield
        finally:
            self._resume()

    def _pause(self, *_: Any) -> None:
        import torch

        self._pauses += 1
        self._mend_dynamo()
        if self._on:
            torch.nn.Module.__call__ = self._call.original  # type: ignore[method-assign]  # as it was

    def _resume(self, *_: Any) -> None:
        import torch

        self._pauses -= 1
        if self._on and not self._pauses:
            torch.nn.Module.__call__ = self._call.replacement  # type: ignore[method-assign]  # ours

    def _mend_dynamo(self) -> None:
        """Dynamo remembers ``Module.__call__`` when it is imported, which may have been ours."""
        for name in DYNAMO_COPIES:
            module: Any = sys.modules.get(name)
            if getattr(module, "unpatched_nn_module_call", None) is self._call.replacement:
                module.unpatched_nn_module_call = self._call.original

    def _wrap_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import torch
        from torch.compiler import is_compiling

        def call(module: "Module", *args: Any, **kwargs: Any) -> Any:
            if (
                is_compiling()
                or not self._on
                or self._busy()
                or not self._scope.here()
                or not (_has_weights(module) if self._serves else _trainable(module))
            ):
                return original(module, *args, **kwargs)
            with self._suspended():
                if not (self._serves or (module.training and torch.is_grad_enabled())):
                    return self._evaluate(module, original, (module, *args), kwargs)
                self._found(module)
                return original(module, *args, **kwargs)

        return untraced(call)

    def _wrap_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            compiled = original(*args, **kwargs)
            if self._on and self._dynamo is None:
                from torch._dynamo.callback import callback_handler

                self._dynamo = callback_handler
                callback_handler.register_start_callback(self._pause)
                callback_handler.register_end_callback(self._resume)
            return compiled

        return compile

    def _wrap_enter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def enter(context: Any) -> Any:
            if self._on and context._enabled and self._scope.here():
                self._autocast(_type_name(context.fast_dtype))
            return original(context)

        return enter


def dynamo_at_work() -> bool:
    """Whether anything has been compiled in this process."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"]["total"])


def autocast_types() -> frozenset[str]:
    """What autocast computes in at this moment, on any device; empty where it is off."""
    import torch

    enabled = [device for device in DEVICES if torch.is_autocast_enabled(device)]
    return frozenset(_type_name(torch.get_autocast_dtype(device)) for device in enabled)


def _type_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _has_weights(module: "Module") -> bool:
    """Whether it is a model: layers of 8 bits have no parameters, frozen ones not even a state."""
    from torch.jit import ScriptModule

    if next(module.parameters(), None) is not None or isinstance(module, ScriptModule):
        return True
    return any(hasattr(member, "_packed_params") for member in module.modules())


def _trainable(module: "Module") -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())
