"""The server's side of the key-value interface (see ``key_value.py``)."""

import os
import queue
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from advisor.tuners.mechanisms.parameter_server.keys import Key, unpack
from advisor.tuners.mechanisms.parameter_server.links import Link, LinkLost, Message
from advisor.tuners.mechanisms.parameter_server.shard import Push, Shard
from advisor.tuners.strategy import Build

KEEP_EVERY = 100  # updates between two checkpoints of an optimizer's state
KEEP_SHARE = 0.02  # most of a server's time that writing them may take


@dataclass(frozen=True)
class Waiting:
    """An answer that a worker waits for.

    Attributes:
        worker: Its rank.
        shard: What it asks of.
        kind: ``pull`` or ``norm``.
        version: The oldest that it takes, or the one whose gradients it asks about.
        positions: Of the keys that it wants; ``None`` for all.
    """

    worker: int
    shard: str
    kind: str
    version: int
    positions: tuple[int, ...] | None = None


class KeyValueServer:
    """Holds keys, updates them with what workers push, and answers pulls once they may be answered.

    One thread does all the work, in the order in which messages come. It sleeps while there is none. The
    threads that read the links answer pings, so a server that is updating lives.

    Args:
        number: Of this server, from 0.
        links: By rank of the worker.
        build: Makes the program's optimizer for some of its parameters.
        staleness: Most steps that a worker may be ahead (see ``Shard``); 0 for updates with the mean of all
            workers, ``None`` for no limit.
        message_bytes: Size of the messages in which values travel.
        folder: Where the states of optimizers are kept for another server to take over; nothing is kept
            where ``None``. All servers must see it.
    """

    def __init__(
        self,
        number: int,
        links: Mapping[int, Link],
        build: Build,
        *,
        staleness: int | None = 0,
        message_bytes: int = 2**22,
        folder: Path | None = None,
    ) -> None:
        self._number = number
        self._links = links
        self._build = build
        self._staleness = staleness
        self._message_bytes = message_bytes
        self._folder = folder
        self._inbox: queue.SimpleQueue[tuple[int, Message | None]] = queue.SimpleQueue()
        self._shards: dict[str, Shard] = {}
        self._sources: dict[str, int] = {}  # shards taken over, and the server that was lost
        self._parts: dict[tuple[int, str], dict[int, Any]] = {}
        self._gone: set[int] = set()  # workers
        self._waiting: list[Waiting] = []
        self._kept_at: dict[str, int] = {}
        self._keep_after = 0.0
        self._keeping_s: list[float] = []
        self._keep_failure: str | None = None
        self._busy_s = 0.0
        self._began: tuple[float, float] | None = None

    def serve(self) -> None:
        """Serve until every worker is gone."""
        for worker, link in self._links.items():
            link.listen(partial(self._note, worker))
        while self._gone != self._links.keys():
            worker, message = self._inbox.get()
            began = time.perf_counter()
            try:
                self._handle(worker, message)
                self._answer()
            except Exception:  # whatever the program's optimizer raises is told to the workers
                self._tell_all(traceback.format_exc(limit=-3))
            self._busy_s += time.perf_counter() - began

    def report(self) -> dict[str, Any]:
        """What it has done since the first push, as JSON holds it; times in seconds."""
        wall = time.perf_counter() - self._began[0] if self._began else 0.0
        return {
            "server": self._number,
            "busy_share": self._busy_s / wall if wall else 0.0,
            "cpu_s": time.process_time() - self._began[1] if self._began else 0.0,
            "wall_s": wall,
            "updates": sum(shard.updates for shard in self._shards.values()),
            "staleness": self._counted("staleness"),
            "ages": self._counted("ages"),
            "dropped": sum(shard.dropped for shard in self._shards.values()),
            "bytes_received": sum(link.received_bytes for link in self._links.values()),
            "bytes_sent": sum(link.sent_bytes for link in self._links.values()),
            "checkpoint_s": mean(self._keeping_s) if self._keeping_s else None,
            "checkpoint_failure": self._keep_failure,
            "restored": [self._restored(name, source) for name, source in self._sources.items()],
        }

    def _note(self, worker: int, message: Message | None) -> None:
        """In the thread that reads a link: answer a ping, hand on the rest."""
        link = self._links[worker]
        if message is not None and message.kind == "ping":
            self._tell(worker, Message("pong"))
            return
        if message is not None and message.kind != "push":
            link.settle()  # who asks anew has had the answers to what it asked before
        self._inbox.put((worker, message))

    def _handle(self, worker: int, message: Message | None) -> None:
        if message is None:
            self._gone.add(worker)
            self._waiting = [each for each in self._waiting if each.worker != worker]
            for shard in self._shards.values():
                shard.leave(worker)
            return
        fields = message.fields
        match message.kind:
            case "adopt":
                self._adopt(worker, message)
            case "push":
                self._push(worker, message)
            case "pull" | "norm":
                wanted = fields["positions"]
                positions = None if wanted is None else tuple(wanted)
                self._waiting.append(
                    Waiting(worker, fields["shard"], message.kind, fields["version"], positions)
                )
            case "scale":
                self._shards[fields["shard"]].scale(fields["version"], fields["factor"])
            case "report":
                self._tell(worker, Message("report", self.report()))
            case unknown:
                raise ValueError(f"a worker asked for '{unknown}'")

    def _adopt(self, worker: int, message: Message) -> None:
        """Begin to hold keys, with values that a worker has of them."""
        fields, name = message.fields, message.fields["shard"]
        keys = [Key.from_json(values) for values in fields["keys"]]
        if name not in self._shards:
            self._shards[name] = Shard(name, keys, self._build, self._links, self._staleness)
            for gone in self._gone:
                self._shards[name].leave(gone)
            if fields["source"] is not None:
                origin, server = fields["source"]
                self._sources[name] = server
                self._restore(self._shards[name], origin)
        assert message.payload is not None  # what a link hands on has one
        self._shards[name].adopt(worker, fields["step"], fields["version"], unpack(keys, message.payload))

    def _push(self, worker: int, message: Message) -> None:
        fields, name = message.fields, message.fields["shard"]
        self._began = self._began or (time.perf_counter(), time.process_time())
        shard = self._shards[name]
        gradients = self._parts.setdefault((worker, name), {})
        assert message.payload is not None  # what a link hands on has one
        keys = [shard.keys[at] for at in fields["positions"]]
        gradients.update(zip(fields["positions"], unpack(keys, message.payload), strict=True))
        if not fields["last"]:
            return
        del self._parts[worker, name]
        if fields["settings"] is not None:
            shard.configure(fields["settings"])
        shard.push(Push(worker, fields["step"], fields["base"], gradients, fields["held"]))
        self._keep(shard)

    def _answer(self) -> None:
        """Answer all that can be answered now."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            shard = self._shards[each.shard]
            if each.kind == "norm" and (squared := shard.norm_squared(each.version)) is not None:
                fields = {"shard": each.shard, "squared": squared, "last": True}
                self._tell(each.worker, Message("norm", fields))
            elif each.kind == "pull" and shard.can_serve(each.worker, each.version):
                self._send_values(each, shard)
            elif shard.broken:
                self._tell(each.worker, Message("failed", {"reason": _lost_worker(shard)}))
            else:
                self._waiting.append(each)

    def _send_values(self, each: Waiting, shard: Shard) -> None:
        if each.positions is None:
            messages = shard.packed(self._message_bytes)
        else:
            cut = shard.positions(each.positions, self._message_bytes)
            messages = [shard.packed_keys(positions) for positions in cut]
        for number, (positions, payload) in enumerate(messages, 1):
            fields = {
                "shard": shard.name, "version": shard.version, "positions": positions,
                "last": number == len(messages),
            }  # fmt: skip
            self._tell(each.worker, Message("values", fields, payload))

    def _tell(self, worker: int, message: Message) -> None:
        try:
            self._links[worker].send(message)
        except LinkLost:
            return  # the thread that reads the link tells it in its turn

    def _tell_all(self, reason: str) -> None:
        for worker in self._links:
            self._tell(worker, Message("failed", {"reason": reason}))

    def _keep(self, shard: Shard) -> None:
        """Write the state of the shard's optimizer now and then, as long as that costs little."""
        if self._folder is None or shard.updates - self._kept_at.get(shard.name, 0) < KEEP_EVERY:
            return
        began = time.perf_counter()
        if began < self._keep_after:
            return
        self._kept_at[shard.name] = shard.updates
        state = shard.state()
        if not state:
            return
        try:
            _write_state(_state_file(self._folder, shard.name), shard.version, state)
        except OSError as error:  # a full disk must not end the training
            self._keep_failure = str(error)
        ended = time.perf_counter()
        self._keeping_s.append(ended - began)
        self._keep_after = ended + (ended - began) / KEEP_SHARE

    def _restore(self, shard: Shard, origin: str) -> None:
        if self._folder is None:
            return
        import torch

        file = _state_file(self._folder, origin)
        if file.exists():
            kept = torch.load(file, weights_only=True)
            shard.restore(kept["version"], kept["state"])

    def _restored(self, name: str, source: int) -> dict[str, Any]:
        """What was taken over from a lost server, and how many updates of it are missing."""
        shard = self._shards[name]
        return {
            "server": source,
            "keys": len(shard.keys),
            "version": shard.began,
            "updates_lost": shard.newest - shard.began,
            "state_updates_lost": None if shard.kept is None else max(0, shard.began - shard.kept),
        }

    def _counted(self, name: str) -> dict[str, int]:
        """A count of all shards together."""
        counts: Counter[int] = sum((getattr(shard, name) for shard in self._shards.values()), Counter())
        return {str(value): count for value, count in sorted(counts.items())}


def _lost_worker(shard: Shard) -> str:
    names = ", ".join(str(worker) for worker in sorted(shard.left))
    return f"worker {names} was lost, and update {shard.version + 1} needs the gradients of all workers"


def _state_file(folder: Path, shard: str) -> Path:
    return folder / f"optimizer-state-{shard}.pt"


def _write_state(file: Path, version: int, state: dict[str, dict[str, Any]]) -> None:
    """Write a file that a reader sees whole or not at all."""
    import torch

    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    torch.save({"version": version, "state": state}, temporary)
    temporary.replace(file)
