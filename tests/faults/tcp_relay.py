"""Passes what comes to a port of this machine on to a Unix socket: a way to a server that can be cut.

Run as ``python tcp_relay.py PORT SOCKET``; says ``ready`` when it listens.
"""

import socket
import sys
import threading
from contextlib import suppress

PART = 65536


def passing(source: socket.socket, sink: socket.socket) -> None:
    """Pass on until either side ends; then neither goes on."""
    with suppress(OSError):
        while part := source.recv(PART):
            sink.sendall(part)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Serve until killed."""
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print("ready", flush=True)
    while True:
        client, _ = server.accept()
        inner = socket.socket(socket.AF_UNIX)
        inner.connect(sys.argv[2])
        for ends in ((client, inner), (inner, client)):
            threading.Thread(target=passing, args=ends, daemon=True).start()


if __name__ == "__main__":
    main()
