"""Which program of a launcher's command is measured, and which commands are refused."""

from pathlib import Path

import pytest

from advisor.base.errors import UsageError
from advisor.tuners.launching.exec_command import Wanted, check_command, find_wanted, several_machines


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
        ("sh --nnodes 1:4 train.py", "1:4 machines: how many take part must not vary", "`--nnodes=4`"),
        ("sh --num_machines=2 -m pkg.train", "2 machines, and the command does not say where", "HOST:PORT"),
        ("sh meet.sh", "2 machines: each start of the script needs a port", "HOST:$ADVISOR_PORT"),
    ],
)
def test_a_command_that_cannot_be_measured_is_refused(
    command: str, message: str, hint: str, project: Path
) -> None:
    (project / "meet.sh").write_text("torchrun --nnodes 2 --rdzv-endpoint head:29500 train.py\n")
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


@pytest.mark.parametrize(
    ("command", "moved", "host"),
    [
        (
            "srun torchrun --nnodes=2:2 --rdzv-endpoint head:29500 train.py",
            "srun torchrun --nnodes=2:2 --rdzv-endpoint head:7 train.py",
            "head",
        ),
        (
            "torchrun --nnodes 2 --rdzv_endpoint=head train.py --rdzv_endpoint=mine:1",
            "torchrun --nnodes 2 --rdzv_endpoint=head:7 train.py --rdzv_endpoint=mine:1",
            "head",
        ),
        (
            "torchrun --nnodes 2 --master-addr 10.0.0.1 --master-port 29500 -m pkg.train",
            "torchrun --nnodes 2 --master-addr 10.0.0.1 --master-port 7 -m pkg.train",
            "10.0.0.1",
        ),
        (
            "torchrun --nnodes 2 --rdzv-endpoint [::1]:1 x",
            "torchrun --nnodes 2 --rdzv-endpoint [::1]:7 x",
            "::1",
        ),
        (
            "accelerate launch --num_machines 2 --main_process_ip head --main_process_port=1 train.py",
            "accelerate launch --num_machines 2 --main_process_ip head --main_process_port=7 train.py",
            "head",
        ),
    ],
)
def test_each_start_on_several_machines_meets_at_a_port_of_its_own(
    command: str, moved: str, host: str, project: Path
) -> None:
    machines = several_machines(command.split(), project)
    assert machines is not None
    assert machines.with_port(command.split(), 7) == tuple(moved.split())
    assert machines.host == host


def test_a_shell_script_takes_the_port_from_its_environment(project: Path) -> None:
    text = "ssh other torchrun --nnodes 2 --rdzv-endpoint $HEAD:$ADVISOR_PORT train.py"
    machines = several_machines(["bash", "-c", text], project)
    assert machines is not None
    assert machines.with_port(["bash", "-c", text], 7) == ("bash", "-c", text)
    assert machines.host == ""


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --rdzv-endpoint node0:$ADVISOR_PORT train.py",
        'torchrun "--rdzv-endpoint=node0:${ADVISOR_PORT}" train.py',
        "torchrun --master-addr node0 --master-port $ADVISOR_PORT train.py",
    ],
)
def test_a_shell_script_says_on_which_machine_ranks_meet(text: str, project: Path) -> None:
    machines = several_machines(["bash", "-c", text], project)
    assert machines is not None and machines.host == "node0"


@pytest.mark.parametrize(
    "text", ["torchrun train.py", "torchrun --nnodes $N train.py", "torchrun --nnodes=1 train.py"]
)
def test_a_shell_script_that_names_no_number_of_machines_has_one(text: str, project: Path) -> None:
    assert several_machines(["sh", "-c", text], project) is None
