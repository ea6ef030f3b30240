"""Which program of a launcher's command is measured, and which commands are refused."""

from pathlib import Path

import pytest

from advisor.errors import UsageError
from advisor.tuners.exec_command import Wanted, check_command, find_wanted


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "config.py", "src/train.py", "prepare.py"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("torchrun --nproc-per-node 2 train.py --config config.py", "train.py"),
        ("python -m torch.distributed.run --nproc-per-node=2 src/train.py", "src/train.py"),
        ("accelerate launch --num_processes 2 train.py", "train.py"),
        ("env A=1 python -u ./train.py", "train.py"),
    ],
)
def test_the_first_file_of_python_in_a_command_is_the_target(command: str, file: str, project: Path) -> None:
    assert find_wanted(command.split(), project) == Wanted(file=str((project / file).resolve()))


@pytest.mark.parametrize(
    "command",
    [
        "python -m pkg.train config.py",
        "torchrun -m pkg.train",
        "python -m torch.distributed.run -m pkg.train",
    ],
)
def test_a_module_that_is_no_launcher_is_the_target(command: str, project: Path) -> None:
    assert find_wanted(command.split(), project) == Wanted(module="pkg.train")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("python prepare.py\n# python config.py\ntorchrun --nproc-per-node 2 train.py $@", "train.py"),
        ("cd src; python3 train.py && echo done", "train.py"),
        ("python prepare.py && python $ROOT/learn.py", Wanted(name="learn.py")),
        ("python prepare.py; python $PROGRAM.py", None),
        ("make train", None),
    ],
)
def test_of_a_shell_script_the_last_file_it_names_is_the_target(
    text: str, wanted: Wanted | str | None, project: Path
) -> None:
    (project / "run.sh").write_text(f"#!/bin/bash\n{text}\n")
    if isinstance(wanted, str):
        wanted = Wanted(file=str((project / wanted).resolve()))
    expected = wanted or Wanted(under=str(project))
    assert find_wanted(["bash", "run.sh", "--lr", "1"], project) == expected
    assert find_wanted(["bash", "-c", text], project) == expected
    (project / "run").write_text(f"#!/usr/bin/env bash\n{text}\n")
    assert find_wanted(["./run"], project) == expected


def test_without_any_name_the_first_program_below_the_folder_is_taken(project: Path) -> None:
    wanted = find_wanted(["make", "train"], project)
    assert wanted == Wanted(under=str(project))
    assert wanted.shown == "a Python program"


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        ("", "--exec needs a command after `--`", "torchrun"),
        ("trochrun train.py", "no such command: trochrun", "torchrun"),
        ("./missing.sh", "no such command: ./missing.sh", "torchrun"),
        ("sh --max-restarts=3 train.py", "restarts failed ranks (3 times)", "`--max-restarts=0`"),
        ("sh --max_restarts 1 train.py", "restarts failed ranks (1 times)", "`--max-restarts=0`"),
        ("sh --nnodes 1:4 train.py", "1:4 machines", "`--nnodes=1`"),
        ("sh --num_machines=2 -m pkg.train", "2 machines", "`--nnodes=1`"),
    ],
)
def test_a_command_that_cannot_be_measured_is_refused(
    command: str, message: str, hint: str, project: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        check_command(command.split(), project)
    assert message in raised.value.message
    assert raised.value.hint is not None and hint in raised.value.hint


@pytest.mark.parametrize(
    "command",
    [
        "sh train.py",
        "sh --max-restarts=0 --nnodes=1:1 train.py",
        "sh train.py --max-restarts=3 --nnodes 2",  # the program's own arguments
    ],
)
def test_a_command_on_one_machine_without_restarts_passes(command: str, project: Path) -> None:
    check_command(command.split(), project)
