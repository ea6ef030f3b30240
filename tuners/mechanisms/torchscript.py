"""A root module, or its largest child, run by TorchScript in training; evaluation keeps its own forward."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Refused

if TYPE_CHECKING:
    from torch.nn import Module

MOST_SIGNATURES = 4  # each one costs a trace; more means that shapes vary from step to step
MOST_CHILDREN = 3  # that are tried, the largest first and one a step: warm-up has at least as many steps

# what tracing raises for Python it cannot follow; the module's own code runs inside it
TRACING_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError)


def scripted(function: Callable[..., Any], root: "Module") -> Callable[..., Any]:
    """What to call instead of ``function``, the root's bound forward. Parameters stay shared.

    Raises:
        Refused: TorchScript cannot compile the module; with the first line of its message.
    """
    import torch
    from torch.jit.frontend import FrontendError

    _refuse_hooks(root)
    was_training = root.training
    with own_forward(function, root), _without_deprecation():
        try:
            module = torch.jit.script(root)
        except (FrontendError, OSError, *TRACING_ERRORS) as error:
            raise Refused(f"torch.jit.script: {_first_line(error)}") from None
    if not was_training:
        module.train()

    def run(*inputs: Any, **named: Any) -> Any:
        return (module.forward if root.training else function)(*inputs, **named)

    return run


class Traced:
    """Traces the root at its first call in training, once for each form of input.

    A trace holds one path: the train flag, autocast and Python's decisions at that moment. So there is
    one trace per autocast state and per shapes and types of the inputs, and none for evaluation. After
    a failure the program's own forward is called.

    Attributes:
        failure: Why tracing was given up, once it was.
    """

    def __init__(self, function: Callable[..., Any], root: "Module") -> None:
        self._function = function
        self._root = root
        self._traces: dict[object, Callable[..., Any]] = {}
        self.failure: str | None = None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the trace of these inputs, made now if need be, or the program's own forward."""
        import torch

        if self.failure is None and self._root.training and torch.is_grad_enabled():
            trace = self._trace(inputs, named)
            if trace is not None:
                return trace(*inputs)
        return self._function(*inputs, **named)

    @property
    def ran(self) -> bool:
        """Whether it holds a trace."""
        return bool(self._traces)

    def _trace(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> Callable[..., Any] | None:
        import torch

        if named:
            self.failure = "torch.jit.trace: the forward is called with keyword arguments"
            return None
        key = _signature(self._root, inputs)
        if key not in self._traces:
            if len(self._traces) >= MOST_SIGNATURES:
                self.failure = f"torch.jit.trace: more than {MOST_SIGNATURES} shapes of input"
                return None
            try:
                _refuse_hooks(self._root)
                self._traces[key] = _trace_once(self._function, self._root, inputs)
            except torch.OutOfMemoryError:
                raise
            except Refused as reason:
                self.failure = str(reason)
            except TRACING_ERRORS as error:
                self.failure = f"torch.jit.trace: {_first_line(error)}"
        return self._traces.get(key)


class Hybrid:
    """Traces the largest child of a root, by parameters, that can be traced; the rest stays Python.

    A child is replaced while its root's forward runs and no longer, so that the program copies and saves its
    own modules.

    Attributes:
        failure: Why tracing was given up, once it was.

    Raises:
        Refused: The root has no child with parameters and a forward.
    """

    def __init__(self, function: Callable[..., Any], root: "Module") -> None:
        self._function = function
        self._root = root
        self._reasons: list[str] = []
        self._children = _largest_children(root)
        if not self._children:
            raise Refused("no part of the model below the whole has parameters and a forward: try jit_trace")
        self._child = self._children.pop(0)
        self._traced = Traced(self._child.forward, self._child)
        self.failure: str | None = None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the root's own forward with the child traced."""
        import torch

        if self.failure is not None or not (self._root.training and torch.is_grad_enabled()):
            return self._function(*inputs, **named)
        with _instead(self._child, self._run):
            output = self._function(*inputs, **named)
        if self._traced.failure is not None or not self._traced.ran:
            self._go_on()
        return output

    def _run(self, *inputs: Any, **named: Any) -> Any:
        with _instead(self._child, None):  # tracing looks up the forward of the child
            return self._traced(*inputs, **named)

    def _go_on(self) -> None:
        """To the next child; there is none after one that was traced before."""
        reason = self._traced.failure or "it is not called in training"
        self._reasons.append(f"{type(self._child).__name__}: {reason}")
        if self._traced.ran or not self._children:
            self.failure = f"no child can be traced: {'; '.join(self._reasons)}"
            return
        self._child = self._children.pop(0)
        self._traced = Traced(self._child.forward, self._child)


def _largest_children(root: "Module") -> "list[Module]":
    """Those with parameters and a forward, the largest first."""
    from torch.nn import Module

    sizes = {child: sum(p.numel() for p in child.parameters()) for child in root.children()}
    callable_ones = [child for child, size in sizes.items() if size and type(child).forward != Module.forward]
    return sorted(callable_ones, key=lambda child: -sizes[child])[:MOST_CHILDREN]


@contextmanager
def _instead(module: "Module", forward: Callable[..., Any] | None) -> Iterator[None]:
    """``forward`` as the module's own meanwhile; ``None`` for that of its class."""
    before = vars(module).pop("forward", None)
    if forward is not None:
        vars(module)["forward"] = forward
    try:
        yield
    finally:
        vars(module).pop("forward", None)
        if before is not None:
            vars(module)["forward"] = before


def _trace_once(function: Callable[..., Any], root: "Module", inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """A trace of ``function``; random state and buffers are as before afterwards.

    Raises:
        Refused: The forward takes decisions that depend on values, which a trace would freeze.
    """
    import torch
    from torch.jit._trace import TracerWarning

    torchs_own = os.path.dirname(torch.__file__)
    buffers = [(buffer, buffer.clone()) for buffer in root.buffers()]
    devices = sorted({p.device.index for p in root.parameters() if p.device.type == "cuda"})
    cache = torch.is_autocast_cache_enabled()
    with (
        own_forward(function, root),
        torch.random.fork_rng(devices),
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        torch.set_autocast_cache_enabled(False)  # a cached cast would enter the trace as a constant
        try:
            # checking would run the forward again, and dropout would differ
            module = torch.jit.trace(function, inputs, check_trace=False)
        finally:
            torch.set_autocast_cache_enabled(cache)
            with torch.no_grad():
                for buffer, kept in buffers:
                    buffer.copy_(kept)
    for warning in seen:
        if issubclass(warning.category, TracerWarning):
            if warning.filename.startswith(torchs_own):
                continue  # its layers decide by shapes, and there is one trace per shape
            raise Refused(f"torch.jit.trace: {_first_line(warning.message)}")
        if not issubclass(warning.category, DeprecationWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    forward: Callable[..., Any] = module.forward
    return forward


def _signature(root: "Module", inputs: tuple[Any, ...]) -> object:
    import torch

    device = next((p.device.type for p in root.parameters()), "cpu")
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    return (autocast, *(_form(item) for item in inputs))


def _form(item: Any) -> object:
    import torch

    if isinstance(item, torch.Tensor):
        return (item.shape, item.dtype, item.device)
    if isinstance(item, list | tuple):
        return (type(item), *(_form(part) for part in item))
    if isinstance(item, dict):
        return (type(item), *((key, _form(part)) for key, part in item.items()))
    return repr(item)


def _refuse_hooks(root: "Module") -> None:
    if any(module._forward_hooks or module._forward_pre_hooks for module in root.modules()):
        raise Refused("the model has forward hooks, which TorchScript does not run as Python")


@contextmanager
def own_forward(function: Callable[..., Any], root: "Module") -> Iterator[None]:
    """The program's own forward on the class meanwhile: TorchScript must not read a wrapper."""
    kind = type(root)
    own = getattr(function, "__func__", None)
    replaced = vars(kind).get("forward")
    if own is None or kind.forward is own:
        yield
        return
    setattr(kind, "forward", own)  # noqa: B010  # an assignment to a method is no valid type
    try:
        yield
    finally:
        if replaced is None:
            del kind.forward
        else:
            setattr(kind, "forward", replaced)  # noqa: B010  # as above


@contextmanager
def _without_deprecation() -> Iterator[None]:
    """TorchScript is marked as deprecated; the user is told by the knob's page, not at every call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
