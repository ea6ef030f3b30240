"""Handles, random generators and long lists that items are made with, of which workers would get copies."""

import dis
import io
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.loading.dataset_state import PLAIN, parts_of
from advisor.profiles.hooks.loading.object_sizes import objects_bytes
from advisor.profiles.hooks.loading.reached import names_in, reached
from advisor.profiles.hooks.tensors import tensor_type

DEPTH = 5  # of attributes in attributes: dataset.dataset.transform.transforms[0].rng
MOST = 2000  # objects
HANDLES = {
    "zipfile": ("ZipFile",), "tarfile": ("TarFile",), "h5py": ("File", "Group", "Dataset"),
    "lmdb": ("Environment", "Transaction"), "sqlite3": ("Connection", "Cursor"), "netCDF4": ("Dataset",),
    "socket": ("socket",), "ssl": ("SSLSocket",), "http": ("HTTPConnection", "HTTPSConnection"),
    "psycopg": ("Connection",), "psycopg2": ("connection",), "pymysql": ("Connection",),
    "pymongo": ("MongoClient",), "redis": ("Redis",), "tables": ("File",), "numpy": ("NpzFile",),
    "multiprocessing": ("Connection",),
}  # fmt: skip
"""Classes of open files and connections, by the package that they, or a class that they extend, come from."""
GENERATORS = {"numpy": ("Generator", "RandomState"), "random": ("Random",), "torch": ("Generator",)}
IN_MEMORY = (io.BytesIO, io.StringIO)


class Inheritance:
    """Looks once, before the first item is made, and later whether generators were drawn from."""

    def __init__(self) -> None:
        self._found: list[tuple[Inherited, Any, int]] = []

    def look(self, dataset: Any, collate: Any) -> None:
        """Walk what the two hold; no code of the program is run. Takes about a millisecond at most."""
        seen: set[int] = set()
        whole: list[Any] = []  # objects of the program that may make items
        pending = deque([("dataset", dataset, None, 0), ("collate_fn", collate, None, 1)])
        while pending and len(seen) < MOST:
            path, thing, owner, depth = pending.popleft()
            if type(thing) in PLAIN or id(thing) in seen or isinstance(thing, type | ModuleType):
                continue
            seen.add(id(thing))
            kind = _kind(thing)
            if kind is not None:
                self._keep(kind, path, thing, set_at(owner, path.rpartition(".")[2]))
                continue
            taken = objects_bytes(thing)
            if taken:
                place = set_at(owner, path.rpartition(".")[2])
                self._found.append(
                    (Inherited("objects", path, type(thing).__name__, place, bytes=taken), thing, 0)
                )
            if depth < DEPTH and not isinstance(thing, tensor_type()):
                inside: Iterable[tuple[str, Any]] = parts_of(thing)
                owner = owner if type(thing) in (list, tuple, dict) else thing
                pending.extend((f"{path}.{part}", value, owner, depth + 1) for part, value in inside)
                whole.append(thing)
        for each in reached(whole):
            kind = _kind(each.value)
            written = isinstance(each.value, io.IOBase) and not each.value.closed and each.value.writable()
            if kind is not None and id(each.value) not in seen and not written:  # else a log
                seen.add(id(each.value))
                self._keep(kind, each.name, each.value, each.location)

    def _keep(self, kind: str, path: str, thing: Any, place: Location | None) -> None:
        name = f"{type(thing).__module__.partition('.')[0].lstrip('_')}.{type(thing).__name__}"
        self._found.append((Inherited(kind, path, name, place), thing, _state(thing, kind)))

    def found(self, *, made_here: bool, worker_init: Any = None) -> tuple[Inherited, ...]:
        """What was met.

        Args:
            made_here: Whether items have been made in this process since: it is known what they draw from.
            worker_init: Runs first in each worker; what it names is made anew there and left out.
        """
        anew = names_in(worker_init) if worker_init is not None else set()
        return tuple(
            replace(each, drawn=_state(thing, each.kind) != state if made_here else None)
            if each.kind == "generator"
            else each
            for each, thing, state in self._found
            if each.name.rpartition(".")[2] not in anew
        )


def set_at(owner: Any, name: str) -> Location | None:
    """The line of the class of ``owner`` that sets the attribute, in its constructor if that does."""
    found: list[Location] = []
    for kind in type(owner).__mro__ if owner is not None else ():
        for function in vars(kind).values():
            if isinstance(function, FunctionType):
                lines = _setting_lines(function, name)
                places = [Location(function.__code__.co_filename, line, function.__name__) for line in lines]
                found = [*found, *places] if function.__name__ != "__init__" else [*places[-1:], *found]
    return next(iter(found), None)


def _setting_lines(function: FunctionType, name: str) -> list[int]:
    lines, line = [], function.__code__.co_firstlineno
    for instruction in dis.get_instructions(function.__code__):
        line = getattr(instruction, "line_number", instruction.starts_line) or line
        if instruction.opname == "STORE_ATTR" and instruction.argval == name:
            lines.append(line)
    return lines


def _kind(thing: Any) -> str | None:
    if isinstance(thing, io.IOBase):
        return None if isinstance(thing, IN_MEMORY) or thing.closed else "handle"
    for kind in type(thing).__mro__:
        package = kind.__module__.partition(".")[0].lstrip("_")
        if kind.__name__ in HANDLES.get(package, ()):
            return "handle"
        if kind.__name__ in GENERATORS.get(package, ()):
            return "generator"
    return None


def _state(thing: Any, kind: str) -> int:
    """A digest of a generator's state; 0 of anything else."""
    if kind != "generator":
        return 0
    if hasattr(thing, "bit_generator"):
        return hash(repr(thing.bit_generator.state))
    if hasattr(thing, "getstate"):
        return hash(thing.getstate())
    state = thing.get_state()
    return hash(state.numpy().tobytes()) if isinstance(state, tensor_type()) else hash(repr(state))
