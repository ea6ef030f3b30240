"""The ``forward`` of a class of root modules while it is watched."""

from _thread import get_ident
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.hooks.patches import Scope, untraced
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.tensors import leading_size, tensor_type

if TYPE_CHECKING:
    from advisor.profiles.hooks.model.roots import Roots


def class_wrap(
    kind: type, original: Any, scope: Scope, clock: Clock, run: Run, watcher: "Roots"
) -> Callable[..., Any]:
    """A ``forward`` for a class: as before for every instance that is no root, or is one already running."""
    import torch
    from torch.compiler import is_dynamo_compiling  # a single call, unlike is_compiling()

    is_plain = isinstance(original, FunctionType)
    plain = original if is_plain else _through_descriptor(original)
    method: Callable[[Any, Any], Any] = MethodType if is_plain else _bound
    enter: Callable[..., Any] = watcher.enter
    known, evaluations = watcher.known, watcher.evaluations
    stack, spent, note, wall_ns = clock.stack, clock.spent, clock.spent.append, clock.wall_ns
    # Names of its own, for its globals are those of the program, which may have an `id` or a `type`.
    thread, number, type_of, count, total = get_ident, id, type, len, sum
    tensor, size_of, has_gradients = tensor_type(), leading_size, torch.is_grad_enabled

    def forward(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # stands for any signature
        if is_dynamo_compiling() or watcher.busy or thread() != scope.watched:
            return plain(self, *args, **kwargs)
        root = known.get(number(self))
        if root is None or type_of(self) is not kind:
            return plain(self, *args, **kwargs)
        if not (root.settled and clock.plain and self.training and has_gradients()) or stack:
            if root.module() is not self:
                return plain(self, *args, **kwargs)
            return enter(root, self, method(original, self), args, kwargs)
        watcher.busy = True
        watcher.running = root
        evaluations.trained_at = clock.borders
        noted, began = count(spent), wall_ns()
        try:
            if root.function is None and not run.events:
                output = plain(self, *args, **kwargs)
            else:
                output = watcher.changed(root, self, method(original, self), args, kwargs)
        finally:
            took = wall_ns() - began
            if count(spent) != noted:
                took -= total(spent[noted + 1 :: 2])
            note("forward")
            note(took)
            watcher.busy = False
            watcher.running = None
        if root.sampled and not clock.loader_samples:  # a loader has told how many there are
            if args and type_of(args[0]) is tensor and args[0].dim():
                samples = args[0].size(0)
            else:
                samples = size_of((args, kwargs))
            watcher.samples += samples
            clock.root_samples += samples
        return output

    if not is_plain:
        return untraced(forward)
    # Scripting looks names up in the globals of what it finds here: they must be the program's own.
    named = FunctionType(forward.__code__, original.__globals__, closure=forward.__closure__)
    return untraced(named)


def _through_descriptor(original: Any) -> Callable[..., Any]:
    def plain(module: Any, *args: Any, **kwargs: Any) -> Any:
        return _bound(original, module)(*args, **kwargs)

    return plain


def _bound(original: Any, module: Any) -> Any:
    try:
        return original.__get__(module, type(module))
    except AttributeError:  # of TorchScript; asked for it, the instance would keep it in our place
        return module._c._get_method("forward")
