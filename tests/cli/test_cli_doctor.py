"""What limits training here, found out without a training program."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import A_GPU, a_machine
from command_line import assert_told_once, say
from warm import Warm

from advisor.profiles.facts.machine import Machine
from advisor.runs.doctor import Check, completion_line, examine

ROOT = Path(__file__).parents[2]
FAKE = """
__version__ = "{version}"
class version: cuda = {cuda}
class cuda:
    is_available = staticmethod(lambda: False)
class backends:
    class cpu: get_cpu_capability = staticmethod(lambda: "AVX2")
    class mkldnn: is_available = staticmethod(lambda: True)
get_num_threads = lambda: {threads}
"""
SOUND = FAKE.format(version="2.13.0", cuda=None, threads=1)


def a_torch(folder: Path, source: str) -> Path:
    """A module of that name which stands before the real one."""
    (folder / "torch.py").write_text(source)
    return folder


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a torch of the given version, build and threads in place of the real one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("advisor.runs.doctor.LOAD_S", 0.01)

    def put(version: str = "2.13.0", cuda: str | None = None, threads: int = 1) -> None:
        a_torch(tmp_path, FAKE.format(version=version, cuda=repr(cuda), threads=threads))

    put()
    return put


def checks_of(machine: Machine) -> dict[str, Check]:
    return {check.name: check for check in examine(machine)}


DOCTOR = """
import sys
from advisor.cli import main
from advisor.runs import doctor
doctor.LOAD_S = 0.01
sys.exit(main(["doctor", *sys.argv[1:]]))
"""


def doctor(
    light: Warm, folder: Path, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """The command in that folder; how busy the machine is it looks at for a moment only."""
    return light.run(
        "-c", DOCTOR, *arguments, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise ImportError('libcudart.so.12: no such file')", "ImportError: libcudart.so.12: no such file"),
        ("", "AttributeError"),
        ("import os; os.kill(os.getpid(), 9)", "it ended without a word"),
        (f"{SOUND}\nimport atexit; atexit.register(print, 'bye')", "what it says of itself cannot be read"),
    ],
    ids=["import fails", "not torch", "killed", "talks"],
)  # fmt: skip
def test_a_torch_that_cannot_be_used_is_broken_and_exits_with_5(
    light: Warm, tmp_path: Path, source: str, told: str
) -> None:
    (tmp_path / "here").mkdir()
    done = doctor(light, tmp_path / "here", PYTHONPATH=str(a_torch(tmp_path, source)))
    assert done.returncode == 5, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("BROKEN"))
    assert line.startswith("BROKEN  torch: ") and told in line
    assert "pip install torch" in done.stdout
    assert (done.stderr, list((tmp_path / "here").iterdir())) == ("", [])


def test_a_broken_torch_is_one_document_under_json(light: Warm, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    folder = a_torch(tmp_path, "raise OSError('no\x1b[2J')")
    done = doctor(light, tmp_path / "here", "--format", "json", PYTHONPATH=str(folder))
    assert done.returncode == 5
    document = json.loads(done.stdout)
    assert [check["state"] for check in document["checks"] if check["name"] == "torch"] == ["broken"]
    assert document["machine"]["cpus_allowed"] >= 1


@pytest.mark.slow
def test_a_working_torch_is_fine_and_exits_with_0(light: Warm, tmp_path: Path) -> None:
    done = doctor(light, tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(
        f"ok      Python: {sys.version.split()[0]} at {sys.executable}\nok      torch: "
    )
    assert list(tmp_path.iterdir()) == []


def test_a_module_of_the_working_folder_is_not_taken_for_torch(light: Warm, tmp_path: Path) -> None:
    a_torch(tmp_path, "raise ImportError('mine')")
    fine = tmp_path / "fine"
    fine.mkdir()
    done = doctor(light, tmp_path, PYTHONPATH=str(a_torch(fine, SOUND)))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("version", "state"),
    [("2.13.0+cpu", "ok"), ("2.11.0", "ok"), ("2.2.2", "limit"), ("3.0.0a0+git1", "ok"), ("gitabc", "limit")],
)
def test_an_old_torch_is_said(fake: Any, version: str, state: str) -> None:
    fake(version=version)
    assert checks_of(a_machine())["torch"].state == state


def test_more_threads_than_cpus_are_said_with_the_command(fake: Any) -> None:
    fake(threads=8)
    check = checks_of(a_machine(cpus_allowed=2))["threads of torch"]
    assert (check.state, check.seen) == ("limit", "8 for 2 CPUs")
    assert "`export OMP_NUM_THREADS=2`" in check.advice
    fake(threads=2)
    assert "threads of torch" not in checks_of(a_machine(cpus_allowed=2))


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("facts", "name", "state", "told"),
    [
        ({"cpus_allowed": 4, "cpus_online": 16}, "CPUs", "limit", "4 of 16 allowed"),
        ({"cpus_allowed": 4, "cpus_online": 4}, "CPUs", "ok", "4, 4 cores"),
        ({"cpus_allowed": 4, "cpus_online": None}, "CPUs", "ok", "4, 4 cores"),
        ({"governor": "powersave"}, "frequency governor", "note", "powersave"),
        ({"numa_nodes": 2}, "memory nodes", "note", "2 NUMA nodes"),
        ({"shm_bytes": 64 * 2**20}, "/dev/shm", "limit", "64.0 MiB free"),
        ({"shm_bytes": 8 * 2**30}, "/dev/shm", "ok", "8192 MiB free"),
        ({"available_bytes": 2**30}, "memory", "ok", "16384 MiB, 1024 MiB available"),
        ({"has_compiler": False}, "C++ compiler", "limit", "none found"),
        ({"has_compiler": True}, "C++ compiler", "ok", "found"),
        ({}, "GPU", "note", "none seen by NVML"),
        ({"gpus": (A_GPU,)}, "GPU 0", "ok", "NVIDIA H200, 142336 MiB"),
        ({"gpus": (replace(A_GPU, pcie_generation=5, pcie_width=16, nvlinks=18),)}, "GPU 0", "ok",
         "NVIDIA H200, 142336 MiB, PCIe 5 x16, 18 NVLinks"),
        ({"gpus": (replace(A_GPU, pcie_width=8),)}, "GPU 0 link", "limit", "PCIe x8"),
        ({"gpus": (A_GPU,)}, "CUDA", "broken", "torch 2.13.0 is built for CPU"),
    ],
)  # fmt: skip
def test_what_limits_is_told_apart_from_what_does_not(
    facts: dict[str, Any], name: str, state: str, told: str
) -> None:
    check = checks_of(a_machine(**facts))[name]
    assert (check.state, check.seen) == (state, told)
    assert bool(check.advice) == (state != "ok")


def test_a_driver_that_shows_no_device_to_a_cuda_build_is_broken(fake: Any) -> None:
    fake(cuda="13.0")
    check = checks_of(a_machine(gpus=(A_GPU,), driver="570.1"))["CUDA"]
    assert (check.state, check.seen) == ("broken", "torch is built for CUDA 13.0, driver 570.1")


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("value", ["1", "yes"])
def test_a_debugging_variable_is_said_with_how_to_unset_it(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", value)
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = checks_of(a_machine())
    assert found["CUDA_LAUNCH_BLOCKING"].seen == f"{value}: every kernel is waited for"
    assert found["CUDA_LAUNCH_BLOCKING"].advice == "`unset CUDA_LAUNCH_BLOCKING`"
    assert found["WORLD_SIZE"].state == "limit"


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("value", ["", "0", "OFF"])
def test_a_debugging_variable_that_is_off_is_not_said(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", value)
    assert "TORCH_DISTRIBUTED_DEBUG" not in checks_of(a_machine())


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("/bin/bash", 'eval "$(_ADVISOR_COMPLETE=bash_source advisor)"'),
        ("/usr/bin/zsh", 'eval "$(_ADVISOR_COMPLETE=zsh_source advisor)"'),
        ("/usr/bin/fish", "_ADVISOR_COMPLETE=fish_source advisor | source"),
        ("/bin/tcsh", None),
        ("", None),
    ],
)
def test_the_line_for_completion_is_that_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, shell: str, line: str | None
) -> None:
    monkeypatch.setenv("SHELL", shell)
    assert completion_line() == line


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("x",), ("got an unexpected extra argument (x)",)),
        (("--format", "xml"), ("'xml' is not one of 'text', 'json'",)),
        (("--quiet",), ("No such option '--quiet'.",)),
    ],
)
def test_what_cannot_be_meant_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    assert_told_once(say(capsys, "doctor", *arguments), 2, texts)


@pytest.fixture
def here(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which nothing is set."""
    for name in [name for name in os.environ if name.startswith("ADVISOR_")]:
        monkeypatch.delenv(name)
    return Path.cwd()


def settings_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    said = say(capsys, "doctor", "--format", "json", *arguments)
    return {setting["name"]: setting for setting in json.loads(said.out)["settings"]}


def test_each_setting_is_told_with_the_strongest_source_that_sets_it(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings_of(capsys)["seed"] == {"name": "seed", "source": "default", "value": None, "hidden": []}
    (here / "pyproject.toml").write_text("[tool.advisor]\nseed = 1\nmin-gain = '3%'\n")
    assert settings_of(capsys)["seed"]["source"] == "pyproject.toml"
    (here / "advisor.toml").write_text("seed = 2\ntrials = 4\nformat = 'md'\n")
    found = settings_of(capsys)
    assert (found["seed"]["source"], found["seed"]["value"]) == ("advisor.toml", "2")
    assert found["min-gain"]["source"] == "default", "beside advisor.toml that table is not used"
    monkeypatch.setenv("ADVISOR_SEED", "3")
    monkeypatch.setenv("ADVISOR_FORMAT", "text")
    found = settings_of(capsys)
    assert found["seed"] == {
        "name": "seed", "source": "ADVISOR_SEED", "value": "3", "hidden": ["advisor.toml"],
    }  # fmt: skip
    assert found["format"] == {
        "name": "format", "source": "command line", "value": "json",
        "hidden": ["ADVISOR_FORMAT", "advisor.toml"],
    }  # fmt: skip


def test_what_is_set_stands_before_what_is_not(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "advisor.toml").write_text("budget = '5m'\nkeep-batch = true\n[fix]\namp = 'bf16'\n")
    monkeypatch.setenv("ADVISOR_BUDGET", "20m")
    lines = say(capsys, "doctor").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("set "))
    assert lines[at : at + 3] == [
        "set     budget: 20m, by ADVISOR_BUDGET, in place of advisor.toml",
        "set     fix: amp=bf16, by advisor.toml",
        "set     keep-batch: true, by advisor.toml",
    ]
    rest = " ".join(lines[at + 3 :])
    assert rest.startswith("default ") and "seed" in rest and "budget" not in rest


def test_settings_that_cannot_be_used_are_told_with_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "advisor.toml").write_text("trails = 3\ntrials = 5\n")
    monkeypatch.setenv("ADVISOR_TRIALS", "many")
    said = say(capsys, "doctor")
    assert said.code == 0
    assert "LIMIT   settings: advisor.toml: trails: unknown key\n        did you mean trials?" in said.out
    assert "LIMIT   settings: ADVISOR_TRIALS: 'many' is not a valid integer.\n" in said.out
    assert "set     trials: (cannot be read), by ADVISOR_TRIALS, in place of advisor.toml\n" in said.out


def test_a_file_that_is_no_toml_leaves_the_checks_of_the_machine(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "advisor.toml").write_text("trials 4\n")
    said = say(capsys, "doctor")
    assert (said.code, said.err) == (0, "")
    assert "ok      torch: 2.13.0\n" in said.out
    assert "LIMIT   settings: advisor.toml:1:8: expected '='" in said.out


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_password_is_not_shown(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    monkeypatch.setenv("ADVISOR_STORAGE", "postgresql://ada:s3cret@localhost/db")
    said = say(capsys, "doctor", "--format", format)
    assert "postgresql://ada@localhost/db" in said.out and "s3cret" not in said.out + said.err
    monkeypatch.setenv("ADVISOR_STORAGE", "postgres//ada:s3cret@localhost/db")
    said = say(capsys, "doctor", "--format", format)
    assert "s3cret" not in said.out + said.err


@pytest.mark.parametrize(
    ("engine", "code", "hint"),
    [("ray", "no_ray", "pip install 'torch-advisor[ray]'"), ("slurm", "no_allocation", "`sbatch ")],
)
def test_an_engine_that_is_not_there_is_an_error_with_the_next_step(
    light: Warm, tmp_path: Path, engine: str, code: str, hint: str
) -> None:
    if engine == "ray" and importlib.util.find_spec("ray") is not None:
        pytest.skip("ray is installed")
    done = doctor(light, tmp_path, "--on", engine, "--format", "json", SLURM_JOB_NODELIST="n1")
    assert done.returncode == 5
    error = json.loads(done.stdout)["error"]
    assert error["code"] == code
    assert hint in error["hint"]
