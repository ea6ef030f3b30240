"""Keeping the many launches of a study out of the user's experiment trackers.

A program is started again and again only to be measured. Its trackers would fill the user's projects
with runs that he never made, so they are switched off or write into the trial's scratch folder.
"""

import functools
import inspect
import os
import socket
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from advisor.profiles.hooks.imports import after_import

Arguments = dict[str, Any]

OFFLINE = {
    "WANDB_MODE": ("disabled", "offline", "dryrun"),
    "COMET_START_ONLINE": ("false", "0", "no"),
    "NEPTUNE_MODE": ("offline", "debug", "disabled", "read-only"),
    "CLEARML_OFFLINE_MODE": ("1", "true", "yes"),
    "SWANLAB_MODE": ("disabled", "offline", "local"),
    "MPLBACKEND": ("Agg", "pdf", "pgf", "ps", "svg", "cairo", "template"),
    "HF_HUB_DISABLE_TELEMETRY": ("1", "true", "yes", "on"),
    "MLFLOW_DISABLE_TELEMETRY": ("true", "1"),
}
"""Variable: what we set, then what else the user may have set to the same end and keeps.

Neptune's one word that both its generations know is ``offline``.
"""

FOLDERS = {
    "WANDB_DIR": "wandb",
    "COMET_OFFLINE_DIRECTORY": "comet",
    "NEPTUNE_DATA_DIRECTORY": "neptune",
    "NEPTUNE_LOG_DIRECTORY": "neptune",
    "CLEARML_CACHE_DIR": "clearml",
}
"""Where an offline tracker leaves its files, unless the user said so himself."""

RUN_NAMES = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID")
"""They name something on the user's server; a store of our own does not have it."""

LONGEST_TMPDIR = 60
"""Unix sockets of multiprocessing live in TMPDIR; their whole path has to stay under 108 bytes, and
``/pymp-xxxxxxxx/listener-xxxxxxxx`` or torch's ``/torch-shm-dir-xxxxxx/manager.sock`` come on top."""


LIGHTNING = ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric")
LOGGERS = (("csv_logs", "CSVLogger"), ("tensorboard", "TensorBoardLogger"))
WRITERS = {
    "torch.utils.tensorboard.writer": ("SummaryWriter.__init__",),
    "tensorboardX.writer": ("SummaryWriter.__init__",),
    **{f"{root}.loggers.{file}": (f"{kind}.__init__",) for root in LIGHTNING for file, kind in LOGGERS},
}
FOLDER_ARGUMENTS = ("log_dir", "logdir", "save_dir", "root_dir")
"""The functions that open a folder for logs, and what they call it."""


def silence(environment: MutableMapping[str, str], scratch: Path) -> list[str]:
    """Set, before the program starts, what makes its trackers stay on this machine.

    Args:
        environment: The variables of the process to be; edited.
        scratch: A folder of the trial; what the trackers write goes below it.

    Returns:
        Names of the variables that were set or taken away, sorted.
    """
    before = dict(environment)
    for name, (ours, *same) in OFFLINE.items():
        if environment.get(name, "").lower() not in {ours.lower(), *same}:
            environment[name] = ours
    for name in FOLDERS.keys() - environment.keys():
        folder = scratch / FOLDERS[name]
        folder.mkdir(parents=True, exist_ok=True)  # W&B warns where it is missing
        environment[name] = os.fspath(folder)
    environment["MLFLOW_TRACKING_URI"] = _mlflow_store(scratch)
    environment["MLFLOW_ALLOW_FILE_STORE"] = "true"  # refused since MLflow 3.7 otherwise
    for name in RUN_NAMES:
        environment.pop(name, None)
    names = before.keys() | environment.keys()
    return sorted(name for name in names if before.get(name) != environment.get(name))


def use_temporary(environment: MutableMapping[str, str], folder: Path) -> None:
    """Make a folder TMPDIR, unless its path is too long for the sockets that live there."""
    if len(os.fsencode(folder)) <= LONGEST_TMPDIR:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment["TMPDIR"] = os.fspath(folder)


def install(scratch: Path) -> None:
    """Reach, inside the program, the trackers that no variable reaches. Belongs before its first import.

    TensorBoard writers and Lightning's file loggers write below ``scratch/logs``, at the path that was
    asked for; MLflow keeps its runs in scratch whatever server the program names; Weights & Biases and
    Comet stay off even if the program asks for them.
    """
    for module, names in WRITERS.items():
        _redirect(module, names, functools.partial(_move_folder, scratch=scratch))
    _redirect("wandb", ("init",), _switch_wandb_off)
    _redirect("comet_ml", ("Experiment.__init__", "ExistingExperiment.__init__"), _switch_comet_off)
    store = functools.partial(_use_store, store=_mlflow_store(scratch))
    _redirect("mlflow.tracking.client", ("MlflowClient.__init__",), store)
    # Two modules hand the same function on under their own names.
    for module in ("mlflow.tracking", "mlflow"):
        _redirect(module, ("set_tracking_uri",), store)


def _move_folder(arguments: Arguments, scratch: Path) -> None:
    """The folder that was asked for, below scratch; TensorBoard's own default where none was."""
    given = [name for name in FOLDER_ARGUMENTS if arguments.get(name)]
    for name in given:
        arguments[name] = _below(arguments[name], scratch / "logs")
    if not given:
        stamp = time.strftime("%b%d_%H-%M-%S")
        run = f"{stamp}_{socket.gethostname()}{arguments.get('comment') or ''}"
        arguments["log_dir"] = os.fspath(scratch / "logs" / "runs" / run)


def _below(asked: Any, folder: Path) -> Any:
    """``asked`` as a path inside ``folder``, of the type that it had; unchanged if it lies there."""
    text = os.fsdecode(asked)
    if Path(text).is_relative_to(folder):
        return asked
    parts = [part for part in PurePath(text.replace("://", "/")).parts if part not in ("/", "..")]
    moved = folder.joinpath(*parts)
    return moved if isinstance(asked, os.PathLike) else os.fspath(moved)


def _switch_wandb_off(arguments: Arguments) -> None:
    if arguments.get("mode") not in (None, *OFFLINE["WANDB_MODE"]):
        arguments["mode"] = "disabled"


def _switch_comet_off(arguments: Arguments) -> None:
    arguments["disabled"] = True


def _use_store(arguments: Arguments, store: str) -> None:
    for name in ("uri", "tracking_uri"):
        if arguments.get(name) is not None:
            arguments[name] = store


def _mlflow_store(scratch: Path) -> str:
    return (scratch / "mlruns").absolute().as_uri()


def _redirect(module: str, names: tuple[str, ...], change: Callable[[Arguments], None]) -> None:
    """Once ``module`` is imported, let ``change`` edit the bound arguments of its functions."""

    def act(imported: ModuleType) -> None:
        for name in names:
            kind, _, function = name.rpartition(".")
            owner: Any = getattr(imported, kind, None) if kind else imported
            if hasattr(owner, function) and owner is not None:  # other versions may not have it
                setattr(owner, function, _with_arguments(getattr(owner, function), change))

    after_import(module, act)


def _with_arguments(function: Callable[..., Any], change: Callable[[Arguments], None]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # which says itself what is wrong with them
        change(bound.arguments)
        return function(*bound.args, **bound.kwargs)

    return changed
