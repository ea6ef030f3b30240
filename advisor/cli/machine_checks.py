"""Options that ask for more than the machine has, found out without importing torch."""

import ast
import importlib.util
import os
from pathlib import Path

from advisor.base.errors import EnvironmentProblem, UsageError
from advisor.profiles.facts.machine import Machine
from advisor.stages.first_line import VISIBLE, visible_gpus


def check_ranks(ranks: tuple[int, ...] | None, machine: Machine) -> None:
    """Refuse more workers than there are places for.

    Raises:
        UsageError: Too many, or more than one.
    """
    for number in ranks or ():
        places = len(machine.gpus) or machine.cpus_allowed
        if number > places:
            what = "GPUs are present" if machine.gpus else "CPUs are allowed"
            raise UsageError(
                f"{number} ranks, but {places} {what}", where="--ranks", hint=f"`--ranks {places}`"
            )


def check_device(device: str | None, machine: Machine) -> None:
    """Refuse a device that is not there.

    Raises:
        UsageError: No device of that number.
        EnvironmentProblem: No CUDA device at all.
    """
    if device is None or not device.startswith("cuda"):
        return
    version, cuda = torch_build()
    if cuda is None:
        built = f"torch {version} is built for CPU" if version else "torch is not installed"
        raise EnvironmentProblem(
            f"no CUDA device: {built}", where="--device", hint="`--device cpu`", code="no_cuda"
        )
    count = visible_gpus(len(machine.gpus), os.environ.get(VISIBLE))
    if count == 0:
        reason = f"{VISIBLE} shows none" if machine.gpus else "the driver shows none"
        raise EnvironmentProblem(
            f"no CUDA device: {reason}", where="--device", hint="`--device cpu`", code="no_cuda"
        )
    index = int(device.partition(":")[2] or 0)
    if index >= count:
        present = ", ".join(f"cuda:{number}" for number in range(count))
        raise UsageError(f"no {device}, present: {present}", where="--device", hint="`--device cuda:0`")


def torch_build() -> tuple[str, str | None]:
    """Version of the installed torch, and of the CUDA (or HIP) it is built for; "" without torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "", None
    try:
        tree = ast.parse(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return "", None
    values: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Constant):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and isinstance(statement.value.value, str):
                    values[target.id] = statement.value.value
    return values.get("__version__", ""), values.get("cuda") or values.get("hip")
