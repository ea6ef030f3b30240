"""Ranks of a trial on other machines: where they meet the tuner, and how it sees that they have ended.

Their launcher hands on one variable, in which address and token stand. The line is plain TCP, as that of
torchrun's own rendezvous: for networks that are trusted.
"""

import base64
import contextlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import select
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from advisor.tuners.afar import keep_alive
from advisor.tuners.channel import Channel
from advisor.tuners.failures import Failure, TrialFailed
from advisor.tuners.relay import BY_ITSELF, RankEnd

VARIABLE = "ADVISOR_MEETING"  # as in arming/sitecustomize.py
MOST_WAITING = 1024  # ranks
TOKEN_BYTES = 16
TAKEN = re.compile(rb"(?i)address already in use|EADDRINUSE")
MOST_STDERR = 2**20  # bytes that are searched


class DistantChannel(Channel):
    """A line to another machine. Closing it is seen there, whoever else here still watches it."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(connection)

    def close(self) -> None:
        """End the line for both sides."""
        with contextlib.suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        super().close()


class Meeting:
    """A port of this machine to which the ranks of others turn.

    Args:
        host: A machine of the command, in whose direction the port is opened; ``None``: where this machine's
            own name leads.
        wanted: Which program is to be measured.

    Raises:
        TrialFailed: There is no such address (``environment``).
    """

    def __init__(self, host: str | None, wanted: Mapping[str, Any]) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._wanted = dict(wanted)
        try:
            self.address = _own_address(host or socket.gethostname())
            family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
            self._listener = socket.create_server((self.address, 0), family=family, backlog=MOST_WAITING)
        except OSError as error:
            message = (
                f"no address of this machine towards {host or 'its own name'}: {error.strerror or error}"
            )
            raise TrialFailed(Failure("environment", message)) from None
        self.port = int(self._listener.getsockname()[1])

    @property
    def variable(self) -> str:
        """What the ranks must find in their environment: one word without quotes."""
        told = {"at": [self.address, self.port], "token": self._token, "wanted": self._wanted}
        return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self._listener.fileno()

    def accept(self) -> DistantChannel:
        """The next one that comes; who it is, its first line tells."""
        return DistantChannel(self._listener.accept()[0])

    def admits(self, hello: Mapping[str, Any]) -> bool:
        """Whether this was started by our command."""
        return hmac.compare_digest(str(hello.get("token")).encode(), self._token.encode())

    def warning(self) -> str:
        """What users must know of it."""
        is_public = ipaddress.ip_address(self.address.partition("%")[0]).is_global
        where = f"{self.address}{', a public address' if is_public else ''}"
        return (
            f"ranks on other machines report to {where}, now to port {self.port}: plain TCP with a token, "
            "for networks that you trust"
        )

    def close(self) -> None:
        """Nobody is met any more."""
        self._listener.close()


class DistantEnd(RankEnd):
    """A rank on another machine: its process is not to be seen here, but its line is.

    Its session writes down the outcome that came over the line.
    """

    def __init__(self, channel: Channel, folder: Path) -> None:
        super().__init__(None, folder)
        self._line = os.dup(channel.fileno())
        self._hung_up = False

    @property
    def sees_end(self) -> bool:
        """No more than its line; afterwards the file of its outcome has to be looked for."""
        return not self._hung_up

    @property
    def waiting(self) -> list[tuple[int, int]]:
        """Also the end of its line, whatever is still to be read of it."""
        line = [] if self._hung_up else [(self._line, select.POLLRDHUP)]
        return [*super().waiting, *line]

    def look(self, ready: Collection[int]) -> None:
        """With an outcome it has ended by itself."""
        self._hung_up = self._hung_up or self._line in ready
        if self._hung_up and not self.gone and self._outcome.exists():
            self.gone = True
            self.tell(BY_ITSELF)

    def close(self) -> None:
        """Give back what is not the session's."""
        super().close()
        os.close(self._line)


def port_was_taken(stderr: Path) -> bool:
    """Whether a command ended because somebody else had its port."""
    with contextlib.suppress(OSError), stderr.open("rb") as stream:
        return TAKEN.search(stream.read(MOST_STDERR)) is not None
    return False


def free_port() -> int:
    """A port that nobody uses here at this moment."""
    with socket.socket() as taken:  # and never listens
        taken.bind(("", 0))
        return int(taken.getsockname()[1])


def _own_address(host: str) -> str:
    """The address by which this machine is reached from ``host``; nothing is sent."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
