"""Running the user's program as Python itself would, with us already in the process.

The program must not be able to tell: the module ``__main__``, ``sys.argv``, ``sys.path`` and what an
import finds are those of a bare ``python FILE`` or ``python -m MODULE``.
"""

import io
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from advisor.profiles.facts.profile import Location

OUR_PACKAGES = ("advisor", "advisor.profiles", "advisor.tuners", "advisor.templates")

LOADED_AT_START = frozenset(sys.builtin_module_names) | {
    "__main__", "_collections_abc", "_sitebuiltins", "abc", "advisor", "codecs", "encodings", "genericpath",
    "importlib", "io", "ntpath", "os", "posixpath", "runpy", "site", "sitecustomize", "stat", "usercustomize",
    "zipimport",
}  # fmt: skip
"""Modules that every Python has before the first line of a program: a file of the user's with such a
name is ignored without us, too. ``advisor`` is the one name that we cannot give up."""


def run_file(path: str | Path, args: Sequence[str]) -> None:
    """Run a script as ``__main__``; returns at its end.

    Args:
        path: The script, as the user wrote it: ``sys.argv[0]`` shows it so (a Path has lost a ``./``).
        args: ``sys.argv[1:]``.

    Raises:
        SyntaxError: Its source cannot be compiled; ``filename`` and ``lineno`` say where.
        OSError: It cannot be read.
        BaseException: Whatever the program raises, ``SystemExit`` included.
    """
    written = os.fspath(path)
    file = written if os.path.isabs(written) else os.path.join(os.getcwd(), written)
    _enter(os.path.dirname(os.path.realpath(file)), [written, *args], [written])
    with io.open_code(file) as stream:
        source = stream.read()
    code = compile(source, file, "exec", dont_inherit=True)
    main = _fresh_main(file, SourceFileLoader("__main__", file))
    exec(code, main.__dict__)


def run_module(name: str, args: Sequence[str]) -> None:
    """Run a module, or the ``__main__`` of a package, as ``python -m`` does; returns at its end.

    Not by ``runpy.run_module``: that puts the former ``__main__`` back at the end, which threads and
    exit functions of the program would notice.

    Raises:
        ImportError: No such module, or nothing in it that can be run.
        BaseException: Whatever the program raises, ``SystemExit`` included.
    """
    _enter(os.getcwd(), ["-m", *args], ["-m", name])  # argv[0] while packages are imported
    spec = _runnable(name)
    loader: Any = spec.loader
    code: CodeType | None = loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"No code object available for {spec.name}", name=spec.name)
    sys.argv[0] = spec.origin or name
    main = _fresh_main(spec.origin, loader, spec)
    exec(code, main.__dict__)


@cache
def forget_our_folder() -> None:
    """Take off ``sys.path`` what stands there for our sake; only the first call acts.

    That is the entry which starting us put in front, and our own folders: the user's ``profile.py`` or
    ``knob.py`` must never meet ours. The root of a plain clone goes to the end, behind all of his.
    """
    if not sys.flags.safe_path and sys.path:
        del sys.path[0]
    root = os.path.dirname(_our_folders()[0])
    is_clone = os.path.isfile(os.path.join(root, "setup.cfg"))
    kept = [entry for entry in sys.path if not _is_ours(entry)]
    last = [entry for entry in kept if is_clone and _real(entry) == root]
    sys.path[:] = [entry for entry in kept if entry not in last] + last


def user_frame(raised: BaseException | TracebackType | None) -> Location | None:
    """The last place of a traceback that is the user's: not a library's, not Python's, not ours.

    Args:
        raised: An exception or its traceback. A file of the user's that cannot be compiled is itself
            the place.

    Returns:
        File, line and function, or None where no frame is the user's.
    """
    if isinstance(raised, SyntaxError) and raised.filename and _is_users(raised.filename):
        return Location(raised.filename, raised.lineno or 0)
    trace = raised.__traceback__ if isinstance(raised, BaseException) else raised
    place = None
    for frame, line in traceback.walk_tb(trace):
        if _is_users(frame.f_code.co_filename):
            place = Location(frame.f_code.co_filename, line, frame.f_code.co_qualname)
    return place


def user_traceback(error: BaseException) -> str:
    """The traceback as the bare program would have printed it: from the user's first frame, none of ours."""
    told = traceback.TracebackException.from_exception(error)
    for part in _parts(told):
        part.stack = _without_us(part.stack)
    lines = list(told.format())
    if not told.stack and lines[0] == "Traceback (most recent call last):\n":
        del lines[0]  # Python prints none for a script that cannot be compiled
    return "".join(lines)


def _enter(folder: str, argv: list[str], command: list[str]) -> None:
    """Arguments, import path and loaded modules as a fresh Python has them."""
    forget_our_folder()
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, folder)
        _give_way(folder)
    sys.argv = argv
    sys.orig_argv = [sys.orig_argv[0], *command, *argv[1:]]  # for programs that start themselves again


def _fresh_main(file: str | None, loader: Any, spec: ModuleSpec | None = None) -> ModuleType:
    main = ModuleType("__main__")
    main.__loader__ = loader
    main.__spec__ = spec
    main.__package__ = spec.parent if spec else None
    main.__dict__.update(
        __annotations__={},
        __builtins__=sys.modules["builtins"],
        __file__=file,
        __cached__=spec.cached if spec else None,
    )
    sys.modules["__main__"] = main
    return main


def _runnable(name: str) -> ModuleSpec:
    """The spec of the module to run; the wording of refusals is Python's own."""
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name}", name=name)
    if spec.submodule_search_locations is not None:
        if name.endswith(".__main__"):
            raise ImportError("Cannot use package as __main__ module", name=name)
        inner = find_spec(f"{name}.__main__")
        if inner is None:
            raise ModuleNotFoundError(
                f"No module named {name}.__main__; {name!r} is a package and cannot be directly executed",
                name=f"{name}.__main__",
            )
        spec = inner
    if not hasattr(spec.loader, "get_code"):
        raise ImportError(f"No code object available for {name}", name=name)
    return spec


def _give_way(folder: str) -> None:
    """Unload what we imported if the program's own folder has a module of that name.

    Without us the program would have got its own, whatever the standard library calls so.
    """
    for entry in _listed(folder):
        name = entry.name.removesuffix(".py")
        module = sys.modules.get(name)
        if module is None or name in LOADED_AT_START:
            continue
        if name == entry.name and not os.path.isfile(os.path.join(folder, name, "__init__.py")):
            continue
        if _real(getattr(module, "__file__", None) or "").startswith(os.path.join(folder, "")):
            continue
        for loaded in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[loaded]


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # a folder may allow to enter it and not to list it
        return []


def _parts(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception with its causes and, for a group, its members."""
    yield told
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        if other is not None:
            yield from _parts(other)


def _without_us(stack: traceback.StackSummary) -> traceback.StackSummary:
    users = (i for i, frame in enumerate(stack) if _is_users(frame.filename))
    behind_ours = max((i + 1 for i, frame in enumerate(stack) if _is_ours(frame.filename)), default=0)
    first = next(users, behind_ours)
    return traceback.StackSummary.from_list([f for f in stack[first:] if not _is_ours(f.filename)])


def _is_users(file: str) -> bool:
    if file == getattr(sys.modules.get("__main__"), "__file__", None):
        return not _is_ours(file)  # `-m` may name an installed module
    return not file.startswith("<") and not _is_ours(file) and not _is_within(file, _library_folders())


def _is_ours(file: str) -> bool:
    return _is_within(file, _our_folders())


@cache
def _is_within(file: str, folders: tuple[str, ...]) -> bool:
    real = os.path.join(_real(file), "")
    return any(real.startswith(os.path.join(folder, "")) for folder in folders)


def _real(path: str) -> str:
    return os.path.realpath(path) if path else ""


@cache
def _our_folders() -> tuple[str, ...]:
    """Where our packages lie: one folder when installed, four in a clone. The first is ``advisor``."""
    folders: list[str] = []
    for name in OUR_PACKAGES:
        spec = find_spec(name)
        places = (spec and spec.submodule_search_locations) or ()
        # An editable install adds the name of its finder, which is no folder.
        folders += [os.path.realpath(place) for place in places if os.path.isabs(place)]
    return tuple(dict.fromkeys(folders))


@cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [sysconfig.get_path(name) for name in names]
    places += [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    return tuple(dict.fromkeys(os.path.realpath(place) for place in places))
