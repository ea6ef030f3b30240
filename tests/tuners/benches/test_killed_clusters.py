"""A part of Ray or SLURM is killed while a process on a node counts: no number is lost or comes twice."""

import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from clusters import COUNTING, WAIT_S, a_cluster, counted, opened, programs
from supervised import marked, until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("no_process_remains")]


@pytest.mark.parametrize("killed", ["actor or step", "daemon", "head"])
@pytest.mark.parametrize("make", ["ray", "slurm"])
def test_a_part_of_the_engine_that_is_killed(
    make: str, killed: str, no_process_remains: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_cluster(make) as standing:
        for variable, value in standing.variables.items():
            monkeypatch.setenv(variable, value)
        with closing(standing.engine(tmp_path)) as engine:
            line = opened(engine, COUNTING)
            assert line.receive(WAIT_S) == "0"
            (process,) = programs()
            above = process.parents()[1]
            victim = {"actor or step": above, "daemon": standing.daemon(), "head": standing.head()}[killed]
            victim.send_signal(signal.SIGKILL)
            began = time.monotonic()
            if make == "slurm" and killed != "actor or step":  # a step needs neither
                numbers = [int(str(line.receive(WAIT_S))) for _ in range(1000)]
            else:  # Ray's client goes on for a minute without a head
                numbers = counted(line, 120.0)
            print(f"{make} {killed}: {len(numbers)} lines in {time.monotonic() - began:.1f} s")
            assert numbers == list(range(1, 1 + len(numbers)))
            line.close()
    until(lambda: not marked(no_process_remains), WAIT_S)
