"""How the worker processes of a data loader are started."""

import ast
import multiprocessing
import pickle
import sys
from pathlib import Path
from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.loading.loader_probe import TheirFailure, theirs
from advisor.profiles.hooks.tensors import tensor_type
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.worker_knob import WorkerSetting

SENT = ("dataset", "collate_fn", "worker_init_fn")
AFTER_CUDA = "the GPU is in use already, after which a process must not be forked"
UNGUARDED = "the program has no `if __name__ == '__main__':`, so every worker would run it from the start"
INTERACTIVE = "the program has no file from which a new process could read its dataset"


class MultiprocessingContext(WorkerSetting[str]):
    """Copies the training process for each worker (`fork`), or starts a fresh Python for it.

    `fork` is quick and shares what is in memory already, but copies a process in the middle of its work:
    it is unsafe once a GPU is in use, and locks that other threads hold stay locked in the copy. `spawn`
    starts Python anew for each worker, `forkserver` forks workers from one clean process. Both import
    everything again, which the first epoch pays (seen with `forkserver`), and every epoch without
    `persistent_workers`.

    A fresh process gets the dataset by pickling it and reads the program's file again, so both must allow
    for it: no lambdas in the dataset, and training under ``if __name__ == "__main__":``. Values that
    the program sets at run time in global variables do not reach it. Without workers it is refused.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.01  # nothing but the start of workers differs, and processes made anew start later

    def values(self) -> list[str]:
        return ["fork", "forkserver", "spawn"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return profile.loader.multiprocessing_context or multiprocessing.get_all_start_methods()[0]

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        offered = multiprocessing.get_all_start_methods()
        tried = [value for value in self.values() if value != present and value in offered]
        return [present, *(value for value in tried if not _unsafe(value, profile))]

    def check(self, value: str, profile: Profile) -> None:
        if value != self.present(profile) and _unsafe(value, profile):
            raise Refused(AFTER_CUDA)

    def _set(self, arguments: dict[str, Any], value: str) -> None:
        reason = _after_cuda() if value == "fork" else _unguarded() or _cannot_be_sent(arguments)
        if reason:
            raise Refused(reason)
        arguments["multiprocessing_context"] = value

    def change(self, value: str) -> Change:
        return Change(f'DataLoader(..., multiprocessing_context="{value}")')


def _unsafe(value: str, profile: Profile) -> bool:
    return value == "fork" and profile.device.startswith("cuda")


def _after_cuda() -> str | None:
    import torch

    return AFTER_CUDA if torch.cuda.is_initialized() else None


def _unguarded() -> str | None:
    """Why a fresh process would train, too, or would not find the program; ``None`` where all is well."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None:
        return INTERACTIVE
    try:
        program = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return INTERACTIVE
    return None if any(_is_guard(line) for line in program.body) else UNGUARDED


def _is_guard(line: ast.stmt) -> bool:
    if not isinstance(line, ast.If) or not isinstance(line.test, ast.Compare):
        return False
    compared = [line.test.left, *line.test.comparators]
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in compared)


def _cannot_be_sent(arguments: dict[str, Any]) -> str | None:
    for name in SENT:
        try:
            theirs(_Pickled(_Nowhere()).dump, arguments.get(name))
        except TheirFailure as failure:
            return (
                f"{name} cannot be pickled for a new process: {str(failure.__cause__).partition(chr(10))[0]}"
            )
    return None


class _Pickled(pickle.Pickler):
    """Pickles all but the numbers inside tensors and arrays: those can always be sent, at some length."""

    def reducer_override(self, value: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if type(value) is tensor_type() or (numpy is not None and type(value) is numpy.ndarray):
            return int, ()
        return NotImplemented


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        """As if it were written."""
        return len(data)
