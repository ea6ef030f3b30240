"""The process of a bench: what passes its line, and a real program that is measured over it."""

import os
import sys
import time
from pathlib import Path

import pytest

from advisor.base.settings import Settings, TargetRequest
from advisor.runs.bench_process import Pipe, Quiet
from advisor.stages.benches import COMMAND
from advisor.tuners.benches.messages import (
    Close,
    NotOpened,
    Open,
    Opened,
    Paired,
    Ping,
    Pong,
    Raced,
    RunInstances,
    RunRace,
    Said,
    Teach,
    understood,
    written,
)
from advisor.tuners.benches.remote import RemoteBench
from advisor.tuners.benches.subprocess_engine import SubprocessEngine
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.knob import Value
from advisor.tuners.launching.session import Interrupted

WAIT_S = 240.0
PROGRAM = """\
import torch

print("said by the target", flush=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100_000):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
"""


def test_pings_are_answered_at_once_and_what_is_to_be_done_is_kept() -> None:
    (source, to), (back, sink) = os.pipe(), os.pipe()
    pipe = Pipe(source, sink)
    teach = Teach({"a": 1}, ("b",), None, 0.01)
    os.write(to, f"{written(Ping())}\n{written(teach)}\n{written(Ping())}\n".encode())
    Quiet(pipe).waiting("steps", 1.0)
    answers = os.read(back, 1000).decode().splitlines()
    assert [understood(line) for line in answers] == [Pong(), Pong()]
    assert pipe.next() == teach
    os.write(to, f"{written(Close())}\n".encode())
    with pytest.raises(Interrupted):
        Quiet(pipe).waiting("steps", 2.0)
    assert pipe.next() is None
    for descriptor in (source, to, back, sink):
        os.close(descriptor)


def test_a_line_that_ends_interrupts_what_is_measured() -> None:
    source, to = os.pipe()
    pipe = Pipe(source, 1)
    Quiet(pipe).waiting("steps", 1.0)
    os.close(to)
    with pytest.raises(Interrupted):
        Quiet(pipe).waiting("steps", 1.0)
    os.close(source)


def test_a_message_that_comes_in_parts_is_taken_whole() -> None:
    source, to = os.pipe()
    pipe, line = Pipe(source, 1), written(Teach({"a": 1}, (), 5, 0.01))
    os.write(to, line[:10].encode())
    pipe.look(0.0)
    os.write(to, f"{line[10:]}\n".encode())
    assert pipe.next() == understood(line)
    for descriptor in (source, to):
        os.close(descriptor)


@pytest.mark.long
def test_a_real_program_is_opened_raced_and_confirmed_over_a_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    cpu = max(os.sched_getaffinity(0))
    engine = SubprocessEngine([cpu], [[cpu]])
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), budget_s=60.0)
    try:
        bench = RemoteBench(engine.open(engine.nodes()[1], [sys.executable, *COMMAND]), time.monotonic)
        bench.say(Open(settings, str(tmp_path / "nowhere")))
        assert isinstance(heard(bench), NotOpened)
        bench.say(Open(settings, str(tmp_path)))
        opened = heard(bench)
        assert isinstance(opened, Opened) and opened.step_s > 0 and opened.digest.startswith("sha256:")
        present: dict[str, Value] = {"set_to_none": "on", "placebo": "off"}
        bench.say(Teach(present, (), None, 0.01))
        bench.ask(7, RunRace(7, 1, present, {**present, "placebo": "on"}, 0.0, 30.0))
        raced = heard(bench)
        assert isinstance(raced, Raced) and raced.key == 7 and raced.slots and raced.applied == ("placebo",)
        pairs = tuple(Instance(n, present, {**present, "placebo": "on"}, "live", 2) for n in range(2))
        bench.ask(8, RunInstances(8, pairs))
        paired = heard(bench)
        assert isinstance(paired, Paired) and [len(duel.log_ratios) for duel in paired.duels] == [2, 2]
    finally:
        engine.close()


def heard(bench: RemoteBench) -> Said:
    until = time.monotonic() + WAIT_S
    while (said := bench.hear(1.0)) is None:
        assert time.monotonic() < until, "the bench does not answer"
    return said
