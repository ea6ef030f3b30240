"""Benches as steps of a SLURM allocation, one on each of its nodes."""

import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from advisor.base.errors import EnvironmentProblem
from advisor.tuners.benches.engine import Node
from advisor.tuners.benches.pipe import PipeLine
from advisor.tuners.benches.relayed_line import END_S, START_S, RelayedLine

MORE_S = 10.0  # for a step to start once it is granted; srun tells why none was
ASK_S = 30.0  # for a controller to answer
IN_BATCH = "`sbatch --nodes=2 --exclusive --wrap 'advisor tune train.py --on slurm'`"


class SrunEngine:
    """An ``Engine`` of the nodes of the allocation that this process runs in.

    A step has a node's CPUs, memory and devices to itself, as far as the allocation has them.

    Args:
        folder: For logs.
        start_s: Seconds that a node may take to start a process: others may have it.

    Raises:
        EnvironmentProblem: This is no allocation, or SLURM's commands are not here.
    """

    name = "slurm"

    def __init__(self, folder: Path, *, start_s: float = START_S) -> None:
        environment = os.environ
        if "SLURM_JOB_ID" not in environment or "SLURM_JOB_NODELIST" not in environment:
            raise EnvironmentProblem(
                "--on slurm places processes on the nodes of an allocation, and this is none",
                cause="SLURM_JOB_ID is not set",
                hint=IN_BATCH,
                code="no_allocation",
            )
        missing = [name for name in ("srun", "scontrol") if shutil.which(name) is None]
        if missing:
            raise EnvironmentProblem(
                f"--on slurm needs SLURM's own commands: {' and '.join(missing)} cannot be found",
                hint="`module load slurm`, or set PATH",
                code="no_slurm",
            )
        self._folder, self._start_s = folder, start_s
        self._lines: list[RelayedLine] = []
        self._numbers = itertools.count()

    def nodes(self) -> list[Node]:
        """As of ``Engine``; devices of other nodes are taken to be as many as here."""
        names = _asked("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()
        cpus = list(_repeated(os.environ.get("SLURM_JOB_CPUS_PER_NODE", "")))
        gpus = os.environ.get("SLURM_GPUS_ON_NODE", "")
        here = os.environ.get("SLURMD_NODENAME", socket.gethostname().partition(".")[0])
        if here not in names:
            raise EnvironmentProblem(
                f"{here} is no node of the allocation, but advisor measures where it runs as well",
                hint=f"{IN_BATCH}; or `srun --overlap --nodes=1 --ntasks=1 --pty bash` first",
                code="no_allocation",
            )
        return [
            Node(
                name,
                cpus[place] if place < len(cpus) else 0,
                int(gpus) if gpus.isdigit() else 0,
                name == here,
            )
            for place, name in enumerate(names)
        ]

    def open(self, node: Node, command: Sequence[str]) -> RelayedLine:
        """As of ``Engine``."""
        step = [
            "srun", "--nodes=1", "--ntasks=1", f"--nodelist={node.name}", f"--immediate={self._start_s:.0f}",
            "--quiet", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit", "--job-name=advisor-bench",
        ]  # fmt: skip
        log = self._folder / f"{node.name}-{next(self._numbers)}.log"
        with log.open("w") as errors:
            line = PipeLine(
                node.name,
                [*step, sys.executable, "-P", "-m", "advisor.tuners.benches.relay"],
                errors=errors,
                end_s=END_S,
            )
        relayed = RelayedLine(line, command, log, start_s=self._start_s + MORE_S)
        self._lines.append(relayed)
        return relayed

    def close(self) -> None:
        """As of ``Engine``."""
        for line in self._lines:
            line.close()


def _asked(*command: str) -> str:
    """What a command of SLURM answers."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_S, check=True, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"SLURM does not answer `{' '.join(command)}`", cause=str(error)) from None
    except subprocess.CalledProcessError as error:
        cause = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
        raise EnvironmentProblem(f"SLURM does not answer `{' '.join(command)}`", cause=cause) from None


def _repeated(text: str) -> Iterator[int]:
    """Numbers of SLURM: ``72(x2),36`` is 72, 72, 36."""
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        yield from [int(number)] * int(times or 1)
