"""The worker's side of a parameter server: a store of keys that live elsewhere.

A key is a parameter. Keys are divided among the servers, the largest first, so that bytes balance. What one
server got is a *shard*: its keys have one version, the number of updates made to them.

===================================  ====================================================================
``push(key, gradient, version)``     the gradient of a key, computed on that version of it; sent together
                                     with other keys, in messages of about ``message_bytes``
``pull(keys, at_least=version)``     end the push; wait until it is part of the values and these are of
                                     that version at least; copy them into the worker's own tensors
``norm()``, ``scale(factor)``        between the two, for clipping: the norm of the mean of all workers'
                                     gradients, and what to multiply it by
``settings``                         hyperparameters of the parameter groups, as sent with the next push
``version(key)``                     of the values that the worker has
``report()``                         what the servers have done
===================================  ====================================================================

On the server (``KeyValueServer``) a push becomes part of an update as ``Shard`` says. Buffers of a model are
no keys: each worker has its own.

A server that closes its connection or answers no ping is lost. Its keys go to the other servers, the largest
first: values from the workers, which hold what they pulled last, and the optimizer's state from the last
checkpoint that the server wrote. The gradients of the update that was under way are pushed again. Where
several servers are lost at once, workers may disagree about who takes over what, and may wait for ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import fsum, sqrt
from typing import TYPE_CHECKING, Any

from advisor.tuners.mechanisms.parameter_server.keys import Key, pack, runs, split_keys, unpack
from advisor.tuners.mechanisms.parameter_server.links import PING_S, PINGS, Link, Message, ServerLost, Servers
from advisor.tuners.mechanisms.parameter_server.shard import Settings

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Held:
    """A shard as a worker knows it.

    Attributes:
        name: The server's number; a shard made of a lost one has its name, a dot, and the new server's.
        server: Number of the server that holds it.
        keys: What it holds.
        source: Name of the shard it was part of and number of the lost server, if it was taken over.
        told: Hyperparameters that its server knows.
        pushed: Whether gradients have been pushed that are not part of the values yet.
        step: Pushes that this worker has made to its keys.
    """

    name: str
    server: int
    keys: list[Key]
    source: tuple[str, int] | None = None
    told: Settings | None = None
    pushed: bool = False
    step: int = 0

    def positions(self, names: Iterable[str]) -> list[int]:
        """Positions of keys."""
        at = {key.name: position for position, key in enumerate(self.keys)}
        return [at[name] for name in names]


class KeyValueStore:
    """Keys that servers hold, as one worker uses them; see the module.

    Args:
        links: To the servers, in their order.
        keys: What they shall hold, all workers the same.
        tensors: The worker's own values by name, equal on all workers; ``pull`` writes into them.
        settings: Hyperparameters of the parameter groups.
        message_bytes: Size of messages; a larger key travels alone.
        ping_s, pings: When a server that does not answer is lost (see ``Servers``).

    Attributes:
        settings: Sent with the next push.
        servers: The links, and which servers are lost.
    """

    def __init__(
        self,
        links: Sequence[Link],
        keys: Sequence[Key],
        tensors: Mapping[str, "Tensor"],
        *,
        settings: Settings,
        message_bytes: int = 2**22,
        ping_s: float = PING_S,
        pings: int = PINGS,
    ) -> None:
        self.settings = settings
        self.servers = Servers(links, ping_s, pings)
        self._tensors = tensors
        self._message_bytes = message_bytes
        self._keys = {key.name: key for key in keys}
        self._open: dict[str, list[Key]] = {}
        self._open_bytes: dict[str, int] = {}
        self._pushed: dict[str, tuple[Tensor | None, int]] = {}
        self._versions = dict.fromkeys(self._keys, 0)
        self._held = False
        self._factor: float | None = None
        parts = split_keys(keys, [0] * len(links))
        self._shards: dict[str, Held] = {}
        self._shard_of: dict[str, Held] = {}
        for at, part in enumerate(parts):
            if part:
                self._place(Held(str(at), at, part))

    def push(self, key: str, gradient: "Tensor | None", version: int) -> None:
        """Send a gradient, ``None`` where there is none; it must not change before the next pull.

        Args:
            key: Name of the key.
            gradient: Of the same shape and dtype; dense.
            version: Of the values that it was computed on.
        """
        shard, room = self._shard_of[key], self._keys[key].room
        opened = self._open.setdefault(shard.name, [])
        self._pushed[key] = (gradient, version)
        if gradient is None:
            return
        size = self._open_bytes.get(shard.name, 0) + room
        if opened and size > self._message_bytes:
            self._send_part(shard, opened, last=False)
            opened.clear()
            size = room
        opened.append(self._keys[key])
        self._open_bytes[shard.name] = size

    def norm(self) -> float:
        """Norm of the mean of all workers' gradients of this push; nothing is updated before ``scale``."""
        self._held = True
        self._end_push()
        squares: list[float] = []

        def take(shard: Held, messages: Sequence[Message]) -> None:
            squares.append(messages[0].fields["squared"])

        pushed = [key.name for shard in self._shards.values() if shard.pushed for key in shard.keys]
        self._gather("norm", pushed, take)
        return sqrt(fsum(squares))

    def scale(self, factor: float) -> None:
        """Have the servers multiply the mean of the gradients, and update with it."""
        self._factor = factor
        for shard in self._shards.values():
            if shard.pushed:
                self._send_factor(shard)

    def pull(self, keys: Iterable[str] | None = None, at_least: int = 0) -> None:
        """End the push and bring the worker's tensors up to date.

        Args:
            keys: Names; all where ``None``.
            at_least: Oldest version to take.

        Raises:
            ServerLost: A server is gone and there is no other to take over its keys.
            RuntimeError: A server could not update its keys.
        """
        self._end_push()
        self._gather("pull", self._keys if keys is None else keys, self._take, at_least=at_least)
        self._pushed.clear()
        self._held, self._factor = False, None

    def version(self, key: str) -> int:
        """Updates that are part of the values that this worker has."""
        return self._versions[key]

    def server_of(self, key: str) -> int:
        """Number of the server that holds a key."""
        return self._shard_of[key].server

    def report(self) -> list[dict[str, Any]]:
        """What each server that lives has done (``KeyValueServer.report``)."""
        reports = dict[int, dict[str, Any]]()
        for server in self.servers.living:
            self.servers.ask(server, Message("report"))
        while set(self.servers.living) - set(reports):
            answer = None
            with suppress(RuntimeError):  # of a request before, which the training has ended with
                answer = self.servers.receive()
            if answer is not None and answer[1].kind == "report":
                reports[answer[0]] = answer[1].fields
        return list(reports.values())

    @property
    def sent_bytes(self) -> int:
        """All that this worker has sent to servers."""
        return sum(link.sent_bytes for link in self.servers.links)

    @property
    def received_bytes(self) -> int:
        """All that this worker has received from servers."""
        return sum(link.received_bytes for link in self.servers.links)

    def messages(self) -> list[list[Key]]:
        """The messages of a push of all keys."""
        return [run for shard in self._shards.values() for run in runs(shard.keys, self._message_bytes)]

    def _place(self, shard: Held) -> None:
        """Have a server hold a shard, with the values that this worker has."""
        self._shards[shard.name] = shard
        self._shard_of.update({key.name: shard for key in shard.keys})
        payload = pack(shard.keys, [self._tensors[key.name] for key in shard.keys])
        keys = [key.as_json() for key in shard.keys]
        version = min(self._versions[key.name] for key in shard.keys)
        about = {"keys": keys, "version": version, "step": shard.step, "source": shard.source}
        self._ask(shard, "adopt", payload, **about)

    def _end_push(self) -> None:
        """Send what has not been sent, to every shard that gradients were pushed to."""
        for name, keys in self._open.items():
            self._send_part(self._shards[name], keys, last=True)
            self._shards[name].pushed = True
        self._open.clear()
        self._open_bytes.clear()

    def _send_part(self, shard: Held, keys: Sequence[Key], *, last: bool) -> None:
        gradients = [gradient for key in keys if (gradient := self._pushed[key.name][0]) is not None]
        fields: dict[str, Any] = {"positions": shard.positions(key.name for key in keys), "last": last}
        if last:
            changed = shard.told != self.settings
            shard.step += 1
            fields |= {"base": self._base(shard), "step": shard.step, "held": self._held}
            fields["settings"] = self.settings if changed else None
            shard.told = self.settings
        self._ask(shard, "push", pack(keys, gradients), **fields)

    def _base(self, shard: Held) -> int:
        """The oldest version that gradients pushed to a shard were computed on."""
        return min(self._pushed[key.name][1] for key in shard.keys if key.name in self._pushed)

    def _send_factor(self, shard: Held) -> None:
        self._ask(shard, "scale", version=self._base(shard), factor=self._factor)

    def _ask(self, shard: Held, kind: str, payload: "Tensor | None" = None, **fields: Any) -> None:
        self.servers.ask(shard.server, Message(kind, {"shard": shard.name, **fields}, payload))

    def _gather(
        self, kind: str, keys: Iterable[str], take: Callable[[Held, list[Message]], None], at_least: int = 0
    ) -> None:
        """Ask the shards of these keys, and hand each one's answer to ``take``.

        All links are watched meanwhile: while this worker waits for one server, others may wait until it
        gives the keys of a lost one to another.
        """
        left, answers = set(keys), dict[str, list[Message]]()
        while left:
            self._move_lost()
            for shard in self._shards.values():
                wanted = [key.name for key in shard.keys if key.name in left]
                if wanted and shard.name not in answers:
                    answers[shard.name] = []
                    positions = None if len(wanted) == len(shard.keys) else shard.positions(wanted)
                    base = self._base(shard) if kind == "norm" else at_least
                    self._ask(shard, kind, positions=positions, version=base)
            if self._stranded():
                continue
            answer = self.servers.receive()
            if answer is None:
                continue
            message = answer[1]
            shard = self._shards[message.fields["shard"]]
            answers[shard.name].append(message)
            if message.fields["last"]:
                take(shard, answers[shard.name])
                left.difference_update(key.name for key in shard.keys)

    def _take(self, shard: Held, messages: Sequence[Message]) -> None:
        """Copy values that have come completely into the worker's own tensors."""
        import torch

        with torch.no_grad():
            for message in messages:
                keys = [shard.keys[at] for at in message.fields["positions"]]
                assert message.payload is not None  # what a link hands on has one
                for key, value in zip(keys, unpack(keys, message.payload), strict=True):
                    self._tensors[key.name].copy_(value)
                    self._versions[key.name] = message.fields["version"]
        shard.pushed = False

    def _stranded(self) -> list[Held]:
        return [shard for shard in self._shards.values() if shard.server in self.servers.lost]

    def _move_lost(self) -> None:
        """Give the keys of lost servers to the others, until all are held.

        Raises:
            ServerLost: There is no other.
        """
        while stranded := self._stranded():
            if not self.servers.living:
                raise ServerLost(self._end_of(stranded))
            self._move(stranded[0], self.servers.living)

    def _move(self, shard: Held, living: Sequence[int]) -> None:
        del self._shards[shard.name]
        loads = [self._load(server) for server in living]
        for server, keys in zip(living, split_keys(shard.keys, loads), strict=True):
            if not keys:
                continue
            source = (shard.name, shard.server)
            pushed = shard.pushed and any(key.name in self._pushed for key in keys)
            moved = Held(
                f"{shard.name}.{server}", server, keys, source, pushed=pushed, step=shard.step - shard.pushed
            )
            self._place(moved)
            if moved.pushed:
                self._push_again(moved)

    def _push_again(self, shard: Held) -> None:
        with_gradient = [key for key in shard.keys if self._pushed.get(key.name, (None,))[0] is not None]
        self._send_part(shard, with_gradient, last=True)
        if self._factor is not None:
            self._send_factor(shard)

    def _load(self, server: int) -> int:
        return sum(key.nbytes for s in self._shards.values() if s.server == server for key in s.keys)

    def _end_of(self, stranded: Sequence[Held]) -> str:
        keys = sum(len(shard.keys) for shard in stranded)
        last = stranded[-1].server
        return (
            f"parameter server {last} was lost ({self.servers.lost[last]}), and there is no other server "
            f"to take over its {keys} keys"
        )
