"""A workload carried to another process: from its file, or as objects shipped by value."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.base.errors import ArgumentError, TargetError, clean
from advisor.tuners.trial.spec import Target
from advisor.workloads.workload import Workload

_loaded: dict[str, Workload] = {}


def load_workload(target: Target) -> Workload:
    """The workload of a target; read once per process (a forked child inherits it).

    Raises:
        TargetError: The file defines no ``workload``.
    """
    if target.name not in _loaded:
        _loaded[target.name] = _from_objects(target) if target.payload else _from_file(Path(target.name))
    return _loaded[target.name]


def pack(arguments: dict[str, Any]) -> bytes:
    """Ship live objects or factories by value, classes and functions of ``__main__`` included.

    Raises:
        ArgumentError: Something cannot leave this process; it is named.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps({"path": sys.path, "arguments": cloudpickle.dumps(arguments)}))
    except Exception as error:  # pickling raises whatever a reducer raises
        raise ArgumentError(
            f"cannot start it in another process: {_culprit(arguments)}",
            cause=clean(f"{type(error).__name__}: {error}"),
            hint="open it in `__getitem__` or in a factory",
        ) from None


def unpack(data: bytes) -> Workload:
    """The workload inside a payload made by ``pack``; every live object is wrapped as a factory."""
    import cloudpickle

    shipped: dict[str, Any] = cloudpickle.loads(data)
    sys.path += [folder for folder in shipped["path"] if folder not in sys.path]
    arguments: dict[str, Any] = cloudpickle.loads(shipped["arguments"])
    return as_workload(arguments)


def as_workload(arguments: dict[str, Any]) -> Workload:
    """A workload from factories or live objects.

    A live optimizer is bound to the live model's parameters; both come back from their factories as
    they are, since each trial runs in a process of its own with its own copy.
    """
    import torch

    plain = dict(arguments)
    for name, kind in (("model", torch.nn.Module), ("dataset", torch.utils.data.Dataset)):
        if isinstance(plain.get(name), kind) or (name == "dataset" and _is_data(plain.get(name))):
            plain[name] = _returning(plain[name])
    if isinstance(plain.get("optimizer"), torch.optim.Optimizer):
        plain["optimizer"] = _ignoring(plain["optimizer"])
    return Workload(**plain)


def _returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def _ignoring(value: Any) -> Callable[[Any], Any]:
    return lambda parameters: value


def _is_data(value: Any) -> bool:
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not callable(value)


def _culprit(arguments: dict[str, Any]) -> str:
    import cloudpickle

    for name, value in arguments.items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # as in pack: whatever a reducer raises names the culprit
            for inner, part in getattr(value, "__dict__", {}).items():
                try:
                    cloudpickle.dumps(part)
                except Exception:  # likewise
                    return f"{name}.{inner} is {_described(part)}"
            return f"{name} is {_described(value)}"
    return "the objects together cannot be copied"


def _described(value: Any) -> str:
    kind = type(value)
    if kind.__module__ in ("_io", "io"):
        return "an open file"
    return f"a {kind.__module__}.{kind.__qualname__}"


def _from_file(path: Path) -> Workload:
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "advisor_workload"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that spawned loader workers find its classes
    spec.loader.exec_module(module)
    workload = getattr(module, "workload", None)
    if not isinstance(workload, Workload):
        raise TargetError(f"{path.name} defines no advisor.Workload named workload", hint="`advisor init`")
    return workload


def _from_objects(target: Target) -> Workload:
    assert target.payload is not None
    return unpack(Path(target.payload).read_bytes())
