"""One message a line over a local socket: how tuner and trial talk while a trial runs."""

import json
import select
import socket
from typing import cast

import msgspec

from advisor.tuners.trial.launch_messages import Arm, Fork, Hello, Leave, Load, Loaded
from advisor.tuners.trial.look_messages import (
    AttentionTimes,
    GraphShares,
    Inspect,
    Inspected,
    MeasuredRates,
    MeasureRates,
    Observe,
    Observed,
    Omit,
    Omitted,
    Probe,
    Probed,
    Record,
    Recorded,
    TimeAttention,
    TimeGraph,
)
from advisor.tuners.trial.messages import (
    Facts,
    Failed,
    FirstStep,
    GoOn,
    MeasureSlot,
    Message,
    Phase,
    Present,
    Ready,
    SlotMeasured,
    Stop,
    TellFacts,
    TrialOutcome,
)
from advisor.tuners.trial.numerics.numerics_messages import (
    KeepState,
    Relearn,
    Relearned,
    ReleaseState,
    StateKept,
)
from advisor.tuners.trial.served_messages import InputsTaken, OutputsTaken, TakeInputs, TakeOutputs

ANY = (
    MeasureSlot | Present | TellFacts | GoOn | Stop | Observe | Inspect | Record | Omit | Probe | TimeGraph
    | MeasureRates | TimeAttention
    | Phase | Ready | FirstStep | SlotMeasured | Facts | Observed | Inspected | Recorded | Omitted | Probed
    | GraphShares | MeasuredRates | AttentionTimes | Failed | TrialOutcome
    | Load | Loaded | Fork | Hello | Arm | Leave
    | TakeInputs | InputsTaken | TakeOutputs | OutputsTaken
    | KeepState | StateKept | Relearn | Relearned | ReleaseState
)  # fmt: skip
"""Every message, for reading."""
MAX_MESSAGE = 16 * 2**20  # a larger line is a fault, not a measurement


class ChannelClosed(Exception):
    """The other side is gone."""


class NotAMessage(ChannelClosed):
    """The other side is there, and sent what is no message: nothing more can be heard from it."""


class Channel:
    """A two-way line of messages over a connected stream socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            ChannelClosed: The other side is gone.
        """
        line = encode(message)
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or ``None`` after ``timeout_s`` seconds without one.

        Raises:
            ChannelClosed: The other side is gone.
            NotAMessage: It sent what is no message.
        """
        while b"\n" not in self._buffer:
            if timeout_s is not None and not select.select([self._socket], [], [], timeout_s)[0]:
                return None
            try:
                part = self._socket.recv(65536)
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if not part:
                raise ChannelClosed("closed by the other side")
            self._buffer += part
            if len(self._buffer) > MAX_MESSAGE:
                raise NotAMessage("message too long")
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return decode(line)

    def close(self) -> None:
        """End the line."""
        self._socket.close()


def encode(message: Message) -> bytes:
    """A message as one line of JSON; numbers that are not finite stay so, as ``json`` writes them."""
    return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message of a line.

    Raises:
        NotAMessage: It is none.
    """
    try:
        return cast(Message, msgspec.convert(json.loads(line), ANY, strict=False, str_keys=True))
    except (ValueError, msgspec.ValidationError) as error:
        raise NotAMessage(f"not a message: {error}") from None
