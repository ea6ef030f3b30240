"""Whether torch can be imported here, and what to do where it cannot, found out without importing it."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from advisor.base.errors import EnvironmentProblem
from advisor.base.installation import CLONE
from advisor.base.settings import TargetRequest

PACKAGES = ("lib/python3.*/site-packages/torch/version.py", "lib64/python3.*/site-packages/torch/version.py")
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


def with_torch(request: TargetRequest) -> TargetRequest:
    """The target again, where it can run at all.

    A launcher's command may name an interpreter of its own and is let pass.

    Raises:
        EnvironmentProblem: This interpreter has no torch; says which one does, and what to install where.
    """
    if request.kind == "exec" or find_spec("torch") is not None:
        return request
    other = next(interpreters_with_torch(os.environ), None)
    raise EnvironmentProblem(
        "torch is not installed in the environment that advisor runs in",
        where=sys.executable,
        hint=_here() if other is None else _beside(other),
        code="no_torch",
    )


def interpreters_with_torch(environment: Mapping[str, str]) -> Iterator[Path]:
    """Other interpreters near at hand whose environment has torch; nothing of them is started.

    Looks at the active environment, ``.venv`` and ``venv`` here, and the first ``python`` and ``python3``
    of ``PATH``.
    """
    active = [Path(environment[name]) for name in ACTIVE if environment.get(name)]
    near = [
        *active,
        Path(".venv").absolute(),
        Path("venv").absolute(),
        *_on_path(environment.get("PATH", "")),
    ]
    for prefix in dict.fromkeys(near):
        python = prefix / "bin" / "python"
        holds_torch = any(next(prefix.glob(pattern), None) is not None for pattern in PACKAGES)
        if prefix != Path(sys.prefix) and python.exists() and holds_torch:
            yield python


def _on_path(path: str) -> Iterator[Path]:
    for folder in path.split(os.pathsep):
        if folder and (Path(folder) / "python").exists() and Path(folder).name == "bin":
            yield Path(folder).parent


def _beside(python: Path) -> str:
    install = shlex.join([str(python), "-m", "pip", "install", CLONE])
    start = shlex.join([str(python), "-m", "advisor"])
    return f"install advisor beside your torch: `{install}`, then `{start}` with the same words"


def _here() -> str:
    return (
        f"install advisor beside your torch: `PYTHON -m pip install {CLONE}` with the PYTHON that trains; "
        f"or torch beside advisor: `{shlex.quote(sys.executable)} -m pip install torch`"
    )
