"""Benches as steps of SLURM, with commands that stand in for SLURM's own."""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from advisor.base.errors import EnvironmentProblem
from advisor.tuners.benches.engine import BenchLost, Node
from advisor.tuners.benches.srun_engine import SrunEngine

SCONTROL = """
[ "$*" = "show hostnames n[1-3]" ] || { echo "scontrol: error: $*" >&2; exit 1; }
echo n1; echo n2; echo n3
"""
SRUN = """
echo "$@" >> "$FAKE_SLURM/asked"
while [ "${1#--}" != "$1" ]; do shift; done
export SLURM_STEP_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1 SLURMD_NODENAME=n2 OMP_NUM_THREADS=77
exec "$@"
"""
BUSY = 'echo "srun: error: Unable to create step for job 9: Requested nodes are busy" >&2; exit 1\n'
WAIT_S = 60.0

pytestmark = pytest.mark.usefixtures("no_process_remains")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SrunEngine]:
    """Makes an engine of three nodes; the text is that of ``srun``."""

    def make(srun: str) -> SrunEngine:
        for name, text in (("scontrol", SCONTROL), ("srun", srun)):
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        for name in [name for name in os.environ if name.startswith("SLURM")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("FAKE_SLURM", str(tmp_path))
        monkeypatch.setenv("SLURM_JOB_ID", "9")
        monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3]")
        monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "72(x2),36")
        monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
        monkeypatch.setenv("SLURMD_NODENAME", "n1")
        return SrunEngine(tmp_path)

    return make


def test_the_nodes_are_those_of_the_allocation(slurm: Callable[[str], SrunEngine]) -> None:
    assert slurm(SRUN).nodes() == [Node("n1", 72, 4, True), Node("n2", 72, 4), Node("n3", 36, 4)]


def test_a_process_is_a_step_on_one_node_in_the_environment_of_the_tuner(
    slurm: Callable[[str], SrunEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = slurm(SRUN)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("ADVISOR_STORAGE", "postgresql://a:secret@b/c")
    names = (
        "SLURM_STEP_ID",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURMD_NODENAME",
        "OMP_NUM_THREADS",
        "ADVISOR_STORAGE",
    )
    program = f"import os; print(*[os.environ.get(name) for name in {names}], flush=True); print(input())"
    with closing(engine):
        line = engine.open(Node("n2", 72), [sys.executable, "-c", program])
        assert line.receive(WAIT_S) == "None None None n2 3 None"
        line.send("on")
        assert line.receive(WAIT_S) == "on"
        assert line.node == "n2"
    asked = (tmp_path / "asked").read_text().split()
    assert {"--nodes=1", "--ntasks=1", "--nodelist=n2"} < set(asked)


def test_a_step_that_is_not_granted_is_told_in_the_words_of_srun(slurm: Callable[[str], SrunEngine]) -> None:
    with pytest.raises(BenchLost, match=r"exit status 1: srun: error: Unable to create step .* are busy"):
        slurm(BUSY).open(Node("n2", 72), [sys.executable, "-c", "1"])


def test_outside_of_an_allocation_a_batch_job_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(EnvironmentProblem) as told:
        SrunEngine(tmp_path)
    assert told.value.code == "no_allocation"
    assert told.value.hint is not None and told.value.hint.startswith("`sbatch ")


def test_without_the_commands_of_slurm_they_are_named(
    slurm: Callable[[str], SrunEngine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slurm(SRUN)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentProblem, match="srun and scontrol cannot be found"):
        SrunEngine(tmp_path)


def test_a_tuner_beside_the_allocation_is_told_to_start_in_it(
    slurm: Callable[[str], SrunEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = slurm(SRUN)
    monkeypatch.setenv("SLURMD_NODENAME", "login")
    with pytest.raises(EnvironmentProblem, match="login is no node of the allocation"):
        engine.nodes()


def test_a_controller_that_does_not_answer_is_told_in_its_words(
    slurm: Callable[[str], SrunEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = slurm(SRUN)
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[")
    with pytest.raises(EnvironmentProblem) as told:
        engine.nodes()
    assert told.value.cause == "scontrol: error: show hostnames n["
