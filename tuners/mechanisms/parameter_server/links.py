"""Messages between a worker and a server of a parameter server, over gloo's send and receive.

Every pair of a worker and a server has a process group of its own. When a process dies, gloo breaks the
connections of its groups only; a time-out of gloo would break all connections of a group for good. So nobody
waits in gloo but the thread that reads a link, without a limit. Waiting takes no CPU time but that of gloo's
own thread, which wakes up a hundred times a second.
"""

import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor

HEAD = 1024  # bytes; the text of nearly every message fits beside the two sizes
SIZES = 16  # bytes: length of the text, length of the payload
FOREVER = timedelta(days=365)  # gloo wants a limit
STALLED = timedelta(seconds=60)  # the rest of a message that has begun; its sender died if it takes longer
PING_S = 2.0  # between two looks whether a server that does not answer still lives
PINGS = 10  # unanswered ones in a row after which it is taken for lost
ALIVE = ("ping", "pong")


@dataclass
class Message:
    """What is asked or answered: a kind, fields as JSON holds them, and bytes, received as an empty tensor
    where none were sent."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    payload: "Tensor | None" = None


class LinkLost(Exception):
    """The process at the other end is gone; the text says how that showed."""


class ServerLost(Exception):
    """A server is gone, and nobody can take over what it held."""


class Link:
    """One end of the connection between a worker and a server.

    Args:
        group: A gloo group of the two.
        other: Rank of the other process in it.

    Attributes:
        sent_bytes, received_bytes: What has passed so far, without pings and their answers.
        lost: Why nothing passes any more; ``None`` while it does.
    """

    def __init__(self, group: "dist.ProcessGroup", other: int) -> None:
        self._group = group
        self._other = other
        self._sending = threading.Lock()
        self._unsettled: deque[tuple[int, dist.Work, Tensor]] = deque()
        self._sent = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.lost: str | None = None

    def send(self, message: Message) -> int:
        """Send without waiting; the payload must not change until it has arrived.

        Returns:
            The number of this message, for ``settle``.

        Raises:
            LinkLost: The other process is gone.
        """
        import torch

        text = json.dumps([message.kind, message.fields]).encode()
        size = 0 if message.payload is None else message.payload.numel()
        head = torch.zeros(HEAD, dtype=torch.uint8)
        head[:SIZES].view(torch.int64).copy_(torch.tensor([len(text), size]))
        fits = len(text) <= HEAD - SIZES
        if fits:
            head[SIZES : SIZES + len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        parts = [head, *([] if fits else [torch.frombuffer(bytearray(text), dtype=torch.uint8)])]
        if message.payload is not None and size:
            parts.append(message.payload)
        with self._sending:
            if self.lost is not None:
                raise LinkLost(self.lost)
            self._sent += 1
            for part in parts:
                self._post(part)
            if message.kind not in ALIVE:
                self.sent_bytes += sum(part.numel() for part in parts)
            return self._sent

    def settle(self, number: int | None = None) -> None:
        """Let go of what was sent, up to this message; waits until the other process has it.

        Called once an answer shows that it has arrived, so there is nothing to wait for.
        """
        while True:
            with self._sending:
                if not self._unsettled or (number is not None and self._unsettled[0][0] > number):
                    return
                work = self._unsettled.popleft()[1]
            try:
                work.wait(STALLED)
            except RuntimeError as error:
                self.lost = self.lost or _first_line(error)
                return

    def listen(self, take: Callable[[Message | None], None]) -> None:
        """Hand every message to ``take``, in a thread of its own; ``None`` once the link is lost."""
        threading.Thread(target=self._listen, args=(take,), daemon=True).start()

    def _listen(self, take: Callable[[Message | None], None]) -> None:
        while True:
            try:
                message = self._receive()
            except RuntimeError as error:
                self.lost = self.lost or _first_line(error)
                take(None)
                return
            take(message)

    def _receive(self) -> Message:
        import torch

        head = self._take(HEAD, FOREVER)
        length, size = head[:SIZES].view(torch.int64).tolist()
        fits = length <= HEAD - SIZES
        text = head[SIZES : SIZES + length] if fits else self._take(length, STALLED)
        payload = self._take(size, STALLED) if size else torch.empty(0, dtype=torch.uint8)
        kind, fields = json.loads(text.numpy().tobytes())
        if kind not in ALIVE:
            self.received_bytes += HEAD + size + (0 if fits else length)
        return Message(kind, fields, payload)

    def _take(self, size: int, limit: timedelta) -> "Tensor":
        import torch
        import torch.distributed as dist

        room = torch.empty(size, dtype=torch.uint8)
        work = dist.irecv(room, group=self._group, group_src=self._other)
        assert work is not None  # this process is in the group
        work.wait(limit)
        return room

    def _post(self, part: "Tensor") -> None:
        import torch.distributed as dist

        try:
            work = dist.isend(part, group=self._group, group_dst=self._other)
        except RuntimeError as error:
            self.lost = self.lost or _first_line(error)
            raise LinkLost(self.lost) from None
        assert work is not None  # this process is in the group
        self._unsettled.append((self._sent, work, part))


class Servers:
    """A worker's links to all servers: requests, the next answer of any, and who still lives.

    A server that is asked answers, or answers pings while it cannot yet. One whose connection is closed, or
    that answers no ping, is lost for good.

    Args:
        links: To the servers, in their order.
        ping_s: Time without any answer after which all are asked whether they live.
        pings: Unanswered ones in a row that mean that a server does not.

    Attributes:
        lost: Why each lost server was taken for lost, by its number.
    """

    def __init__(self, links: Sequence[Link], ping_s: float = PING_S, pings: int = PINGS) -> None:
        self.links = list(links)
        self.lost: dict[int, str] = {}
        self._ping_s = ping_s
        self._pings = pings
        self._inbox: queue.SimpleQueue[tuple[int, Message | None]] = queue.SimpleQueue()
        self._asked = [0] * len(self.links)
        self._unanswered = [0] * len(self.links)
        for server, link in enumerate(self.links):
            link.listen(partial(self._note, server))

    @property
    def living(self) -> list[int]:
        """Numbers of those that are not lost."""
        return [server for server in range(len(self.links)) if server not in self.lost]

    def ask(self, server: int, message: Message) -> None:
        """Send a request, or a part of one; if the server is gone that is only noted in ``lost``."""
        number = self._send(server, message)
        if number is not None:
            self._asked[server] = number

    def receive(self) -> tuple[int, Message] | None:
        """The next answer and whose it is, whenever it comes; ``None`` once a server was lost instead.

        Raises:
            RuntimeError: A server could not do what it was asked for.
        """
        while True:
            try:
                server, message = self._inbox.get(timeout=self._ping_s)
            except queue.Empty:
                known = len(self.lost)
                self._ping()
                if len(self.lost) > known:
                    return None
                continue
            if server in self.lost:
                continue
            if message is None:
                self.lost[server] = self.links[server].lost or "the connection is closed"
                return None
            self._unanswered[server] = 0
            if message.kind == "pong":
                continue
            if message.kind == "failed":
                raise RuntimeError(f"parameter server {server}: {message.fields['reason']}")
            self.links[server].settle(self._asked[server])
            return server, message

    def _note(self, server: int, message: Message | None) -> None:
        self._inbox.put((server, message))

    def _send(self, server: int, message: Message) -> int | None:
        try:
            return self.links[server].send(message)
        except LinkLost as error:
            self.lost.setdefault(server, str(error))
            return None

    def _ping(self) -> None:
        for server in self.living:
            if self._unanswered[server] == self._pings:
                silent_s = self._pings * self._ping_s
                self.lost[server] = f"no answer to {self._pings} pings in {silent_s:g} s"
                continue
            self._unanswered[server] += 1
            self._send(server, Message("ping"))


def link_up(workers: int, servers: int, timeout_s: float = 60.0) -> dict[int, Link]:
    """Connect every worker with every server, over the default process group; by all processes at once.

    Args:
        workers: Ranks 0 to ``workers - 1``.
        servers: The ranks that follow.
        timeout_s: Longest that two processes wait for each other.

    Returns:
        Links by the rank of the other process: a worker's to all servers, a server's to all workers.
    """
    import torch.distributed as dist

    rank, links = dist.get_rank(), dict[int, Link]()
    for worker in range(workers):
        for server in range(workers, workers + servers):
            # all processes take part in naming a group; gloo, whatever the workers use among themselves
            group = dist.new_group([worker, server], timedelta(seconds=timeout_s), backend="gloo")
            if rank == worker:
                links[server] = Link(group, other=1)
            elif rank == server:
                links[worker] = Link(group, other=0)
    return links


def _first_line(error: RuntimeError) -> str:
    """gloo's sentence without its source position and advice."""
    text = (str(error).splitlines() or ["the connection failed"])[0]
    if text.startswith("["):
        text = text.partition("] ")[2] or text
    return text.partition(". This is typically")[0]
