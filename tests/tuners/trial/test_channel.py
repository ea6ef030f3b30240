"""What tuner and trial tell each other arrives as it was said, or is told as no message."""

import math
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import a_profile

from advisor.tuners.place import Place
from advisor.tuners.supervision.failures import Failure
from advisor.tuners.trial.channel import Channel, ChannelClosed, NotAMessage
from advisor.tuners.trial.launch_messages import Hello, Load
from advisor.tuners.trial.look_messages import Observed
from advisor.tuners.trial.messages import (
    Compiled,
    Facts,
    Failed,
    MeasureSlot,
    Message,
    Phase,
    SlotMeasured,
    Stop,
    TrialOutcome,
)
from advisor.tuners.trial.spec import Target, TrialSpec


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    yield ours, channel
    ours.close()
    channel.close()


@pytest.mark.parametrize(
    "message",
    [
        Stop(),
        MeasureSlot(5, 1, ("epoch",), {"amp": "bf16", "num_threads": 2}, 60.0, exact=True),
        Phase("start", 4711),
        SlotMeasured((10, 12), 20, {"forward": 8}, {"evaluation": 1}, kept=(0,), refused={"amp": "it is on"}),
        Observed((10,), 9, (1,), {0: ("epoch",)}, {"forward": 8}, True, 0.1, 0.0, ((0, 0), (1, 1))),
        Facts(a_profile(phases_ms={"forward": 4.0}), losses=(1.0, math.inf), ranks=(Facts(a_profile()),)),
        Failed(Failure("oom_host", "no memory is left")),
        TrialOutcome("stopped", compile=Compiled(0.5, failures=("why",)), report={"bytes_per_step": 4}),
        Load(Target("script", "train.py", ("--lr", "1"))),
        Hello(1, "module", "pkg.train", "", ("-v",), "/", {"RANK": "0", "WORLD_SIZE": None}),
    ],
)
def test_a_message_arrives_as_it_was_said(message: Message, ends: tuple[socket.socket, Channel]) -> None:
    ours, channel = ends
    Channel(ours).send(message)
    assert channel.receive(5.0) == message


def test_a_loss_that_is_no_number_stays_so(ends: tuple[socket.socket, Channel]) -> None:
    ours, channel = ends
    Channel(ours).send(TrialOutcome("ended", losses=(math.nan, 1.0)))
    told = channel.receive(5.0)
    assert isinstance(told, TrialOutcome) and math.isnan(told.losses[0]) and told.losses[1] == 1.0


def test_a_whole_number_may_come_as_a_float_and_text_stays_text(ends: tuple[socket.socket, Channel]) -> None:
    ours, channel = ends
    ours.sendall(b'{"message": "SlotMeasured", "cpu_ns": 3.0, "refused": {"amp": "1"}}\n')
    assert channel.receive(5.0) == SlotMeasured(cpu_ns=3, refused={"amp": "1"})


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"message": "Sing"}', b'{"message": "FirstStep", "startup_s": "long"}']
)
def test_what_is_no_message_is_told_apart_from_silence(
    line: bytes, ends: tuple[socket.socket, Channel]
) -> None:
    ours, channel = ends
    assert channel.receive(0.0) is None
    ours.sendall(line + b"\n")
    with pytest.raises(NotAMessage):
        channel.receive(5.0)
    ours.close()
    with pytest.raises(ChannelClosed, match="closed by the other side"):
        channel.receive(5.0)


def test_what_a_trial_is_told_and_leaves_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = Place(1, 2, rendezvous="meet", cpus=(0, 1))
    spec = TrialSpec(
        7, Target("script", "a.py", ("x",)), str(tmp_path), {"amp": "bf16"}, {"amp": "off"}, place=place
    )
    spec.write(tmp_path / "trial.json")
    assert TrialSpec.read(tmp_path / "trial.json") == spec
    outcome = TrialOutcome("failed", Failure("non_finite", "a loss"), losses=(math.inf,), startup_s=1.0)
    outcome.write(tmp_path / "outcome.json")
    assert TrialOutcome.read(tmp_path / "outcome.json") == outcome
