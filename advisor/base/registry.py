"""A folder is a registry: each file in it defines one member, named after the file."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from typing import TypeVar

Kind = TypeVar("Kind")


def members(package: str, path: Iterable[str], kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    """Yield ``(id, instance)`` for every module of a folder, in alphabetical order.

    Args:
        package: Name of the folder's package (``__name__``).
        path: Where its modules lie (``__path__``).
        kind: The base class; every module defines exactly one subclass of it.

    Raises:
        TypeError: A module defines none, or more than one.
    """
    for module_info in sorted(pkgutil.iter_modules(path), key=lambda info: info.name):
        module = importlib.import_module(f"{package}.{module_info.name}")
        classes = [
            value
            for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, kind) and value.__module__ == module.__name__
        ]
        if len(classes) != 1:
            raise TypeError(f"{module.__name__} must define exactly one {kind.__name__}, not {len(classes)}")
        yield module_info.name, classes[0]()
