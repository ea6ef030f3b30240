"""What a rank does that trains far from its tuner: it ends when the line does, and leaves no folder behind.

No supervisor watches over it; its launcher's agent on the same machine does, for a while.
"""

import os
import select
import shutil
import socket
import threading

KEEPALIVE_S = 10  # of silence, before the line is tried
KEEPALIVE_TRIES = 3


def end_with(connection: socket.socket, folder: str) -> None:
    """Have this process end as soon as the tuner is gone or has no need of it any more."""
    keep_alive(connection)
    line = os.dup(connection.fileno())
    threading.Thread(target=_watch, args=(line, folder), name="advisor-line", daemon=True).start()


def keep_alive(connection: socket.socket) -> None:
    """Notice within a minute that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", KEEPALIVE_S), ("TCP_KEEPCNT", KEEPALIVE_TRIES),
    ):  # fmt: skip
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def leave(folder: str) -> None:
    """Take away what was written for the tuner, which has got all of it over the line."""
    shutil.rmtree(folder, ignore_errors=True)


def _watch(line: int, folder: str) -> None:
    poll = select.poll()
    poll.register(line, select.POLLRDHUP)
    poll.poll()
    leave(folder)
    os._exit(1)
