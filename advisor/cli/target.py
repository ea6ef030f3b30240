"""What the user wants to run, told apart by looking at it; nothing of it is executed."""

import ast
import importlib.machinery
import os
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from advisor.base.errors import TargetError, UsageError, clean
from advisor.base.settings import TargetRequest
from advisor.cli.platforms import check_platform
from advisor.cli.source import defines, line_of_call, model_classes, only_defines, read_source
from advisor.cli.torch_needed import with_torch
from advisor.cli.values import did_you_mean
from advisor.tuners.launching.exec_command import check_command

PYTHON = (".py", ".pyw", "")
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".pkl", ".safetensors")
WITH_RANKS = ("tune", "profile")  # commands that take --ranks
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_trace(name: str) -> bool:
    """Whether an argument names a trace file, by its ending."""
    return name.lower().endswith((".json", ".json.gz", ".gz", ".pt.trace"))


def find_target(
    name: str | None,
    module: str | None,
    arguments: Sequence[str],
    command: str = "tune",
    *,
    launcher: bool = False,
) -> TargetRequest:
    """The target of a command.

    Args:
        name: A file, if one was given.
        module: The module of ``-m``, if one was given.
        arguments: What follows ``--``.
        command: The command that asks, for hints.
        launcher: ``--exec``: what follows ``--`` starts the program.

    Raises:
        UsageError: None, two, or nothing that can be run.
        EnvironmentProblem: The file cannot be read, there is no torch to run it with, or this is Windows.
        TargetError: A syntax error, or no such module.
    """
    check_platform(command)
    if launcher:
        return _command(name or module, tuple(arguments), command)
    if os.environ.get("WORLD_SIZE"):
        raise UsageError(
            "WORLD_SIZE is set: advisor starts the ranks itself",
            hint=f"`{_without_launcher(name, module, command)}`",
        )
    if module is not None:
        if name is not None:
            raise UsageError(
                f"got an unexpected extra argument ({clean(name)})",
                hint="arguments of the script go after `--`",
            )
        return with_torch(_module(module, tuple(arguments)))
    if name is None:
        raise UsageError("Missing argument 'TARGET'.", hint=f"`advisor {command} train.py`")
    return with_torch(_file(name, tuple(arguments)))


def already_used(request: TargetRequest, knobs: Iterable[str]) -> list[str]:
    """A sentence for every knob that was asked for although the program itself does what it would do."""
    if request.kind not in ("script", "workload") or "execution" not in knobs:
        return []
    line = line_of_call(read_source(request.name), "torch.compile")
    place = f"{clean(request.name)}:{line}"
    return [] if line is None else [f'torch.compile is already called at {place}; listed under "not tried"']


def _without_launcher(name: str | None, module: str | None, command: str) -> str:
    """The command that starts as many ranks as the launcher did."""
    words = ["advisor", command, *(["-m", clean(module)] if module else [clean(name or "train.py")])]
    ranks = os.environ["WORLD_SIZE"]
    if command in WITH_RANKS and re.fullmatch(r"[1-9]\d{0,3}", ranks, re.ASCII) and ranks != "1":
        words += ["--ranks", ranks]
    return shlex.join(words)


def _command(other: str | None, words: tuple[str, ...], command: str) -> TargetRequest:
    if other is not None:
        raise UsageError(
            f"got an unexpected extra argument ({clean(other)})",
            where="--exec",
            hint=f"`advisor {command} --exec -- torchrun --nproc-per-node 2 {clean(other)}`",
        )
    check_command(words, Path.cwd())
    return TargetRequest(kind="exec", name=words[0], args=words[1:])


def _file(name: str, arguments: tuple[str, ...]) -> TargetRequest:
    shown = clean(name)
    if URL.match(name):
        raise UsageError(
            "remote scripts are not run", where=_without_user(shown), hint="download and read it first"
        )
    ending = os.path.splitext(name)[1].lower()
    if ending == ".ipynb":
        raise UsageError(
            "notebooks are not run from the command line",
            where=shown,
            hint="`%load_ext advisor` in the notebook, "
            f"or `jupyter nbconvert --to script {shlex.quote(shown)}`",
        )
    if ending in CHECKPOINTS and os.path.isfile(name):
        raise UsageError(
            f"{shown} is a checkpoint, not a program; advisor never unpickles one",
            hint="give the script that trains; weights are safe to load as safetensors",
        )
    if ending not in PYTHON and os.path.isfile(name):
        raise UsageError(f"{shown} is not a Python file", hint="give the script, or `-m package.module`")
    tree = read_source(name)
    if defines(tree, "workload"):
        if arguments:
            raise UsageError(
                f"{shown} is a workload file and takes no arguments", hint="leave out what follows `--`"
            )
        return TargetRequest(kind="workload", name=name)
    _refuse_model_only(tree, shown)
    return TargetRequest(kind="script", name=name, args=arguments)


def _refuse_model_only(tree: ast.Module, shown: str) -> None:
    models = model_classes(tree)
    if models and only_defines(tree):
        raise UsageError(
            f"{shown} only defines a model, {models[-1].name}, and does not train it",
            hint=f"`advisor init {shlex.quote(shown)}` writes a workload file for it",
        )


def _module(name: str, arguments: tuple[str, ...]) -> TargetRequest:
    shown = clean(name)
    if not name or not all(part.isidentifier() for part in name.split(".")):
        hint = f"`advisor tune {shlex.quote(shown)}`" if name.endswith(".py") else "`-m package.module`"
        raise UsageError(f"'{shown}' is not the name of a module", where="-m", hint=hint)
    spec = _find(name)
    if spec is None:
        raise TargetError(
            f"No module named '{shown}'", where="-m", hint=_nearest_module(name), code="no_module"
        )
    if spec.submodule_search_locations is not None:
        inner = f"{name}.__main__"
        if _find(inner) is None:
            raise TargetError(
                f"'{shown}' is a package without __main__",
                where="-m",
                hint=_nearest_module(inner),
                code="no_module",
            )
    elif spec.origin and spec.origin.endswith(".py") and defines(read_source(spec.origin), "workload"):
        raise UsageError(f"{shown} defines a workload", hint="give its file in place of -m")
    return TargetRequest(kind="module", name=name, args=arguments)


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    """The module, without running it or the packages it lies in."""
    first, *rest = name.split(".")
    spec = importlib.machinery.PathFinder.find_spec(first, [os.getcwd()])
    for finder in sys.meta_path:
        if spec is None:
            spec = finder.find_spec(first, None)
    path = first
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = importlib.machinery.PathFinder.find_spec(path, list(spec.submodule_search_locations))
    return spec


def _nearest_module(name: str) -> str | None:
    package, _, last = name.rpartition(".")
    parent = _find(package) if package else None
    if package and parent is None:
        return _nearest_module(package)
    folders = list(parent.submodule_search_locations or []) if parent else [os.getcwd()]
    hint = did_you_mean(last, [found.name for found in pkgutil.iter_modules(folders)])
    return hint.replace("did you mean ", f"did you mean {package}.") if hint and package else hint


def _without_user(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
