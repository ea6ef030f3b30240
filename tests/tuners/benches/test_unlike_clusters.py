"""A node of a real Ray and of a real SLURM that has more CPUs than the tuner's: told apart, and not used."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import CPUS, WAIT_S, a_cluster
from supervised import marked, until

from advisor.profiles.facts.machine import read_machine
from advisor.runs.nodes import checks_of, look_at

pytestmark = pytest.mark.cluster


@pytest.fixture
def _on_the_first_node() -> Iterator[None]:
    """This process is kept to the CPU of the node that it is on."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(CPUS[0])})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("_on_the_first_node")
@pytest.mark.parametrize("make", ["ray", "slurm"])
def test_a_node_with_more_cpus_is_not_used(
    make: str, no_process_remains: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_cluster(make, wide=True) as standing:
        for variable, value in standing.variables.items():
            monkeypatch.setenv(variable, value)
        seen = look_at(standing.engine(tmp_path), read_machine())
    until(lambda: not marked(no_process_remains), WAIT_S)
    assert [node.machine["cpus_allowed"] for node in sorted(seen, key=lambda node: not node.here)] == [1, 2]
    used, others = checks_of(seen)
    assert used.name == "nodes used" and "each 1 CPUs" in used.seen
    assert others.name == "other nodes" and "each 2 CPUs" in others.seen
    assert others.advice == "unlike the node that the tuner runs on, so not used"
