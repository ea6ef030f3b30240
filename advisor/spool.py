"""Results that are safe on this disk until the database has them.

A file of JSON lines, each fsynced before ``keep`` returns: from then on the result is acknowledged, whatever
happens to this process or to the database. Delivering is repeated until it succeeds, and harmless twice.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from filelock import FileLock

from advisor.errors import EnvironmentProblem, clean
from advisor.fault_points import hit
from advisor.leases import EndState

MAX_BYTES = 64 * 2**20  # of a file that is read back; a result has a few kilobytes
LOCK_S = 30.0


@dataclass(frozen=True)
class Result:
    """How one trial ended, with what finds its lease: study, group, number, fence."""

    study: str
    fingerprint: str
    number: int
    fence: int
    state: EndState
    value: float | None
    trial: dict[str, Any]

    @property
    def identity(self) -> str:
        """Whose result it is; two with the same are one."""
        return f"{self.study} {self.fingerprint} {self.number} {self.fence}"


class Spool:
    """The results of workers in one folder for one database; workers on a machine share the file."""

    def __init__(self, folder: Path, storage: str) -> None:
        digest = sha256(storage.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self.path = folder / f"spool-{digest}.jsonl"
        with _told(self.path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(self.path.with_suffix(".lock"), timeout=LOCK_S, mode=0o600)

    def keep(self, result: Result) -> None:
        """Write a result down; when this returns it survives the end of this process and of the machine.

        Raises:
            EnvironmentProblem: The disk does not take it.
        """
        with self._lock:
            self._append({"result": asdict(result)})

    def waiting(self) -> list[Result]:
        """Results that were not delivered, oldest first; a line that was half written is left out."""
        with self._lock:
            return self._waiting()

    def deliver(self, send: Callable[[Result], object]) -> int:
        """Send what waits, oldest first; how many were sent. ``send`` raises when it cannot."""
        sent = 0
        for result in self.waiting():
            send(result)
            with self._lock:
                self._append({"delivered": result.identity})
            sent += 1
        if sent:
            self._forget()
        return sent

    def _forget(self) -> None:
        """Empty the file, when nothing waits in it."""
        with self._lock:
            if self.path.exists() and not self._waiting():
                os.truncate(self.path, 0)

    def _waiting(self) -> list[Result]:
        results: dict[str, Result] = {}
        for entry in self._entries():
            delivered = entry.get("delivered")
            if isinstance(delivered, str):
                results.pop(delivered, None)
            elif (result := _result(entry.get("result"))) is not None:
                results[result.identity] = result
        return list(results.values())

    def _entries(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        with _told(self.path), self.path.open("rb") as stream:
            content = stream.read(MAX_BYTES)
        entries = []
        for line in content.split(b"\n"):
            try:
                entry = json.loads(line)
            except ValueError:  # the last line of a process that was killed, or of a full disk
                continue
            if isinstance(entry, dict):
                entries.append(entry)
        return entries

    def _append(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, allow_nan=False).encode()
        hit("spool.before")
        with _told(self.path):
            is_new = not self.path.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                content = (b"\n" if torn else b"") + line + b"\n"
                if os.write(descriptor, content) != len(content):
                    raise OSError("only a part was written")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if is_new:
                _sync_folder(self.path.parent)
        hit("spool.after")


def _result(data: Any) -> Result | None:
    """A result as it was written; ``None`` for anything else."""
    if not isinstance(data, dict):
        return None
    try:
        result = Result(**data)
    except TypeError:
        return None
    numbers = isinstance(result.number, int) and isinstance(result.fence, int)
    texts = isinstance(result.study, str) and isinstance(result.fingerprint, str)
    known = result.state in get_args(EndState) and isinstance(result.trial, dict)
    return result if numbers and texts and known else None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say plainly that a result cannot be written down."""
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot write {clean(str(path))}",
            cause=clean(error.strerror or str(error)),
            hint="free some space, or work in another folder",
            code="storage",
        ) from error
