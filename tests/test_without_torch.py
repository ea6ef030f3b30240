"""Where no program can run, for want of torch or of a platform, advisor says what to do; the rest works."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from result_builder import a_result

from advisor.base.errors import EnvironmentProblem
from advisor.cli.platforms import check_platform
from advisor.report.files import write_report

ROOT = Path(__file__).parents[1]
OF_TORCH = ("torch", "functorch")
SCRIPT = (
    "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(torch.ones(1)).backward()\n"
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is installed here but torch."""
    folder = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        of_torch = entry.name in OF_TORCH or entry.name.startswith(("torch-", "torchgen"))
        if not of_torch and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    write_report(a_result(), tmp_path / "old")
    write_report(a_result(seed=1), tmp_path / "older")
    return tmp_path


def advisor(
    packages: Path, here: Path, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """``advisor`` in an interpreter that sees these packages and no others."""
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    seen = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(packages))), "PATH": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-S", "-m", "advisor", *arguments], cwd=here, capture_output=True, text=True,
        check=False, timeout=200, env={**kept, **seen, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("command", [("tune",), ("profile",), ("check", "--against", "old")])
def test_a_command_that_trains_names_this_interpreter_and_the_command_that_installs(
    packages: Path, here: Path, command: tuple[str, ...]
) -> None:
    done = advisor(packages, here, *command, "train.py")
    first, where, *rest = done.stderr.splitlines()
    assert first == "error: torch is not installed in the environment that advisor runs in"
    assert where == f"  --> {sys.executable}"
    assert "`PYTHON -m pip install /path/to/advisor` with the PYTHON that trains" in rest[0]
    assert f"`{sys.executable} -m pip install torch`" in rest[0]
    assert "Traceback" not in done.stderr and done.returncode == 5
    assert sorted(path.name for path in here.iterdir()) == ["old", "older", "train.py"]


def test_an_environment_with_torch_is_named_with_the_commands_that_use_it(packages: Path, here: Path) -> None:
    for part in ("bin", "lib/python3.11/site-packages/torch"):
        (here / ".venv" / part).mkdir(parents=True)
    (here / ".venv/bin/python").touch()
    (here / ".venv/lib/python3.11/site-packages/torch/version.py").touch()
    done = advisor(packages, here, "tune", "train.py", "--format", "json", "--", "--epochs", "1")
    error = json.loads(done.stdout)["error"]
    python = here / ".venv" / "bin" / "python"
    assert (error["code"], error["exit_code"]) == ("no_torch", 5)
    assert error["hint"] == (
        f"install advisor beside your torch: `{python} -m pip install /path/to/advisor`, "
        f"then `{python} -m advisor` with the same words"
    )


def test_what_is_wrong_with_the_target_is_told_first(packages: Path, here: Path) -> None:
    done = advisor(packages, here, "tune", "trian.py")
    assert done.returncode == 2 and "did you mean train.py?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--version",), "advisor "),
        (("--help",), "Exit codes:"),
        (("report", "old", "--format", "md"), "<!-- advisor"),
        (("knobs", "amp"), "torch.autocast"),
        (("rules", "input_bound"), "Fires when:"),
        (("studies",), "No studies yet"),
        (("compare", "old", "older"), "ime of a step"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_trains_nothing_works(packages: Path, here: Path, arguments: tuple[str, ...], text: str) -> None:
    done = advisor(packages, here, *arguments)
    assert done.returncode == 0, done.stderr
    assert text in done.stdout + done.stderr


def test_doctor_says_that_torch_is_missing(here: Path) -> None:
    blocked = "import sys\nsys.modules['torch'] = None\n"
    (here / "sitecustomize.py").write_text(blocked)  # doctor asks an interpreter of its own
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "doctor"], cwd=here, capture_output=True, text=True, check=False,
        timeout=200, env={**os.environ, "PYTHONPATH": str(here)},
    )  # fmt: skip
    assert done.returncode == 5
    assert "import of torch halted" in done.stdout and "-m pip install torch" in done.stdout


def test_windows_is_refused_with_what_can_be_done_there() -> None:
    with pytest.raises(EnvironmentProblem, match="does not run programs on Windows yet") as refused:
        check_platform("tune", "win32")
    assert refused.value.exit_code == 5 and refused.value.hint is not None
    assert "`advisor profile trace.json`" in refused.value.hint


@pytest.mark.parametrize(("platform", "warned"), [("linux", False), ("darwin", True), ("freebsd14", True)])
def test_a_platform_that_is_weaker_is_warned_about(
    capsys: pytest.CaptureFixture[str], platform: str, warned: bool
) -> None:
    check_platform("tune", platform)
    assert ("advisor was tested on Linux alone" in capsys.readouterr().err) == warned
