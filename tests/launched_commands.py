"""A launcher's command whose ranks come to the tuner, and what their sessions need."""

import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from advisor.tuners.launching.exec_launch import ExecLaunch, Rank
from advisor.tuners.launching.session import Session
from advisor.tuners.supervision.adoption import Adoption
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.spec import Target, TrialSpec

TRAIN = """
import os, sys
import torch
import torch.distributed as dist
if "RANK" in os.environ:
    dist.init_process_group("gloo")
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).sum()
    loss.backward()
    if dist.is_initialized():
        dist.all_reduce(model.weight.grad)
    optimizer.step()
    {body}
"""


def silent(what: str, seconds: float) -> None:
    """Wait without saying so."""


@dataclass
class Owner:
    """What a session needs of its launcher."""

    limits: Limits = field(default_factory=lambda: Limits(start_s=60.0, step_s=0.05))
    adoption: Adoption = field(default_factory=Adoption)
    waiting: Callable[[str, float], None] = silent
    forgotten: list[Session] = field(default_factory=list)

    def forget(self, session: Session) -> None:
        self.forgotten.append(session)

    def end_orphans(self) -> None:
        self.adoption.end_orphans()

    def stuck(self, count: int) -> None:
        raise AssertionError(f"{count} processes were not ended")


@contextmanager
def a_launch(folder: Path, *command: str, **variables: str) -> Iterator[ExecLaunch]:
    """A command that runs in ``folder``; torch's scripts are those of this Python."""
    with launched(folder, command, variables, None) as launch:
        yield launch


@contextmanager
def launched(
    folder: Path, command: tuple[str, ...], variables: Mapping[str, str], asked: Mapping[str, str] | None
) -> Iterator[ExecLaunch]:
    """The same where ranks on other machines are wanted, too, each with what is ``asked`` of it."""
    trial = folder / "trial"
    trial.mkdir(mode=0o700)
    bin_folder = os.path.dirname(sys.executable)
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**bare, "OMP_NUM_THREADS": "1", "PATH": f"{bin_folder}:{os.environ['PATH']}", **variables}
    spec = TrialSpec(0, Target("exec", command[0], command[1:], str(folder)), str(trial))
    launch = ExecLaunch(command, spec, environment, asked=asked)
    try:
        yield launch
    finally:
        launch.close()


def a_program(folder: Path, body: str = "pass", steps: int = 100_000, name: str = "train.py") -> None:
    indented = textwrap.indent(textwrap.dedent(body).strip(), "    ").strip()
    (folder / name).write_text(TRAIN.format(body=indented, steps=steps))


def sessions_of(launch: ExecLaunch, owner: Owner, limit_s: float = 60.0) -> list[Session]:
    return sessions_of_ranks(launch.ranks(limit_s, owner.waiting), owner)


def sessions_of_ranks(ranks: list[Rank], owner: Owner | None = None) -> list[Session]:
    owner = Owner() if owner is None else owner
    return [
        Session(owner, rank.spec, rank.folder, rank.channel, rank.status, rank.control, None)
        for rank in ranks
    ]


def failure_of(launch: ExecLaunch, limit_s: float = 60.0) -> Failure:
    with pytest.raises(TrialFailed) as raised:
        launch.ranks(limit_s, silent)
    assert not psutil.pid_exists(launch.supervisor)
    return raised.value.failure
