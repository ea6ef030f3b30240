"""Processes that the program starts by multiprocessing, and whether they train.

They are told of in a file of lines: one by whoever starts a process, one when that only waits for it, one by
each that updates parameters. What runs in them is standard library until they import torch themselves.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.surroundings.reachable import names_below

FILE = "children.jsonl"
UPDATES = {"backward", "step"}  # what a function calls that trains
ROOT = str(Path(__file__).resolve().parents[4])  # of a plain clone; where we are installed it is on the path


class Children:
    """Listens in processes that this one starts, for as long as ``wanted`` says so.

    Args:
        folder: Gets the file; a process that is started must be able to write there.
        wanted: Whether anybody still waits to hear who trains.
    """

    def __init__(self, folder: Path, wanted: Callable[[], bool]) -> None:
        self._file = str(folder / FILE)
        self._wanted = wanted
        self._process = os.getpid()

    def install(self) -> None:
        """Listen from now on, once multiprocessing is imported."""
        after_import("multiprocessing.process", self._watch)
        after_import("multiprocessing.spawn", self._make_found)
        after_import("torch.multiprocessing.spawn", self._watch_spawned)

    def _watch(self, module: ModuleType) -> None:
        kind: Any = module.BaseProcess
        original = kind.start

        def start(process: Any) -> None:
            if not self._wanted() or os.getpid() != self._process:
                original(process)
                return
            function = _function_of(process)  # its target is gone once it has started
            process._bootstrap = Heard(process, self._file)
            try:
                original(process)
            finally:
                del process._bootstrap
            fresh = (process._start_method or sys.modules["multiprocessing"].get_start_method()) != "fork"
            _tell(self._file, pid=process.pid, **_described(function, type(process).__name__, fresh))

        joined = kind.join

        def join(process: Any, timeout: float | None = None) -> None:
            if timeout is None:
                self._tell_waits([process])
            joined(process, timeout)

        kind.start, kind.join = start, join

    def _watch_spawned(self, module: ModuleType) -> None:
        kind: Any = module.ProcessContext
        joined = kind.join

        def join(context: Any, timeout: float | None = None, *args: Any, **kwargs: Any) -> Any:
            if timeout is None:
                self._tell_waits(context.processes)
            return joined(context, timeout, *args, **kwargs)

        kind.join = join

    def _tell_waits(self, processes: list[Any]) -> None:
        here = threading.current_thread() is threading.main_thread()
        if here and self._wanted() and os.getpid() == self._process:
            _tell(self._file, waits=[process.pid for process in processes])

    def _make_found(self, module: ModuleType) -> None:
        """A fresh interpreter imports ``Heard``: let it find us, behind all of the program's own."""
        prepare: Any = module.get_preparation_data

        def prepared(*args: Any, **kwargs: Any) -> Any:
            data = prepare(*args, **kwargs)
            if ROOT not in data.get("sys_path", [ROOT]):
                data["sys_path"] = [*data["sys_path"], ROOT]
            return data

        module.get_preparation_data = prepared  # type: ignore[attr-defined]


class Heard:
    """What a process runs first in place of its own ``_bootstrap``, which it then calls."""

    def __init__(self, process: Any, file: str) -> None:
        self._of = process
        self._file = file

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the new process: tell of its first update."""
        after_import("torch.optim.optimizer", self._hear)
        return type(self._of)._bootstrap(self._of, *args, **kwargs)

    def _hear(self, module: ModuleType) -> None:
        def updated(*_: Any) -> None:
            handle.remove()
            threads = sys.modules["torch"].get_num_threads()
            _tell(self._file, pid=os.getpid(), threads=threads)

        handle = module.register_optimizer_step_post_hook(updated)


def _function_of(process: Any) -> Any:
    """What runs in a process, where libraries wrap it as well."""
    target = getattr(process, "_target", None) or type(process).run
    if getattr(target, "__module__", "").startswith("torch."):  # `spawn` hands on what it was given
        return next((each for each in process._args if callable(each)), target)
    return target


def _described(function: Any, otherwise: str, fresh: bool) -> dict[str, Any]:
    """Name and line of a function, and, of one that will run in a fresh Python, whether what it calls trains.

    A copy of this process tells of its first update itself, as soon: it need not import torch first.
    """
    code = getattr(function, "__code__", None)
    names = names_below(function)
    torch = sys.modules.get("torch")
    return {
        "name": getattr(function, "__qualname__", otherwise),
        "at": None if code is None else f"{code.co_filename}:{code.co_firstlineno}",
        "trains": fresh and names >= UPDATES,
        "opens": 1 if torch is None else torch.get_num_threads(),
        "chooses": "set_num_threads" in names,
    }


def _tell(file: str, **what: Any) -> None:
    with open(file, "a") as lines:
        lines.write(json.dumps(what) + "\n")
