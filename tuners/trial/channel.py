"""One JSON message a line over a local socket: how tuner and trial talk while a trial runs."""

import json
import select
import socket
from typing import Any

MAX_MESSAGE = 16 * 2**20  # a larger line is a fault, not a measurement


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """A two-way line of JSON messages over a connected stream socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, **message: Any) -> None:
        """Send one message.

        Raises:
            ChannelClosed: The other side is gone.
        """
        line = json.dumps(message).encode() + b"\n"
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """The next message, or ``None`` after ``timeout_s`` seconds without one.

        Raises:
            ChannelClosed: The other side is gone, or sent what is no message.
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
                raise ChannelClosed("message too long")
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ChannelClosed(f"not a message: {error}") from None
        if not isinstance(message, dict):
            raise ChannelClosed("not a message")
        return message

    def close(self) -> None:
        """End the line."""
        self._socket.close()
