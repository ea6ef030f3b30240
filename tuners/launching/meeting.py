"""Where ranks on other machines turn to the tuner: a port of it, which admits whoever knows a token.

Behind it they have the line that ranks of this machine have. Torch's own `TCPStore` cannot carry it: torch
must not be imported before the program does it, and a store tells its keys to whoever connects.
"""

import base64
import contextlib
import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.caretaker import keep_alive
from advisor.tuners.trial.channel import Channel
from advisor.tuners.trial.messages import Message, Phase, TrialOutcome

VARIABLE = "ADVISOR_MEETING"  # as in arming/sitecustomize.py
MOST_WAITING = 1024  # ranks
TOKEN_BYTES = 16
ELSEWHERE = -1  # a session of the operating system that no process of this machine has
TAKEN = re.compile(rb"(?i)address already in use|EADDRINUSE")
MOST_STDERR = 2**20  # bytes that are searched
NO_RANK_HERE = "no rank of the command trains on this machine: start advisor on one of those that do"


class DistantChannel(Channel):
    """The line to a rank on another machine.

    Args:
        connection: To it.
        folder: Of the rank, on this machine: gets its outcome, which came over the line.
    """

    def __init__(self, connection: socket.socket, folder: Path | None = None) -> None:
        super().__init__(connection)
        self.folder = folder
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(connection)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message; numbers of processes there mean nothing here."""
        message = super().receive(timeout_s)
        if isinstance(message, TrialOutcome) and self.folder is not None:
            message.write(self.folder / "outcome.json")
        if isinstance(message, Phase) and message.session is not None:
            return replace(message, session=ELSEWHERE)
        return message

    def close(self) -> None:
        """End the line for both sides, whoever else holds it."""
        with contextlib.suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        super().close()


class Meeting:
    """A port of this machine to which the ranks of others turn.

    Args:
        host: Where the ranks of the command meet, in whose direction the port is opened; empty: where this
            machine's own name leads.
        wanted: Which program is to be measured.

    Raises:
        TrialFailed: There is no such address (``environment``).
    """

    def __init__(self, host: str, wanted: Mapping[str, str]) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._wanted = dict(wanted)
        named = host or socket.gethostname()
        try:
            self.address = own = _own_address(named)
            if _is_loopback(own) and not _is_loopback(named):  # the own name in /etc/hosts: others look it up
                self.address, own = named, ""
            family = socket.AF_INET6 if ":" in own else socket.AF_INET
            self._listener = socket.create_server((own, 0), family=family, backlog=MOST_WAITING)
        except OSError as error:
            message = f"no address of this machine towards {named}: {error.strerror or error}"
            raise TrialFailed(Failure("environment", message)) from None
        self.port = int(self._listener.getsockname()[1])

    @property
    def variable(self) -> str:
        """What ranks must find in their environment: one word without quotes."""
        told = {"at": [self.address, self.port], "token": self._token, "wanted": self._wanted}
        return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self._listener.fileno()

    def accept(self) -> DistantChannel:
        """The next one that comes; who it is, its first line tells."""
        return DistantChannel(self._listener.accept()[0])

    def admits(self, token: str) -> bool:
        """Whether whoever says this was started by our command."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def close(self) -> None:
        """Nobody is met any more."""
        self._listener.close()


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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:  # a name
        return False
