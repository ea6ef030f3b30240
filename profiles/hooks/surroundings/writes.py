"""What a program leaves behind or reaches out to: files it writes, connections, processes."""

import os
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from advisor.profiles.hooks.imports import after_import

LIMIT = 1000
"""Names kept of each kind: enough to see what a program does, whatever it does in a loop."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LOCKS = (".lock",)  # opened for writing to hold a lock, and left empty
PSEUDO_FILES = ("/dev/", "/proc/", "/sys/")
SQLITE_FILES = ("-journal", "-wal", "-shm")  # which its library makes beside a database, unheard
SHARED_MEMORY = "/dev/shm/"  # files there may be anybody's, most are of libraries


class Writes:
    """Listens to the interpreter's audit events from ``install`` on, while ``active``.

    An audit hook can never be removed, so it is switched off instead. Forked children carry it along
    and are not listened to, but for ``before``. What C++ or Rust code writes without Python is not heard, but
    for files that torch saves to.

    Args:
        ignored: Folders whose contents are nobody's business: scratch, the trial's own folder.
        before: Is told of a path that a process is about to write for the first time, and whether it will be
            new then; where it raises, or ends the process, that does not happen.

    Attributes:
        active: Whether events are recorded.
        process: Which installed it; others are forked children.
        connections: ``host:port`` of addresses outside this machine, and names that were looked up.
        processes: Names of the programs that were started, without their arguments.
    """

    def __init__(
        self, ignored: Sequence[Path] = (), before: Callable[[Path, bool], None] | None = None
    ) -> None:
        self.active = False
        self._before = before
        self.process = os.getpid()
        self._start = _present_folder()
        self._ignored = tuple(
            os.path.join(form(path), "") for path in ignored for form in (os.path.abspath, os.path.realpath)
        )
        self._files: dict[str, bool] = {}
        self._connections: dict[str, None] = {}
        self._processes: dict[str, None] = {}
        self._hearers: dict[str, Callable[[tuple[Any, ...]], None]] = {
            "open": self._opened,
            "os.mkdir": self._made_folder,
            "os.rename": self._renamed,
            "os.remove": lambda args: self._removed(args[0], args[1]),
            "os.rmdir": lambda args: self._removed(args[0], args[1]),
            "os.link": lambda args: self._wrote(args[1], args[3]),
            "os.symlink": lambda args: self._wrote(args[1], args[2]),
            "os.truncate": lambda args: self._wrote(args[0]),
            "sqlite3.connect": lambda args: self._connected(args[0]),
            "socket.connect": lambda args: self._reached(args[1]),
            "socket.sendto": lambda args: self._reached(args[1]),
            "socket.getaddrinfo": lambda args: self._reached(args[:2]),
            "socket.gethostbyname": lambda args: self._reached((args[0], "")),
            "subprocess.Popen": lambda args: self._started(args[0] or args[1]),
            "os.exec": lambda args: self._started(args[0]),
            "os.posix_spawn": lambda args: self._started(args[0]),
            "os.system": lambda args: self._started("sh"),
        }

    @property
    def files(self) -> list[str]:
        """Files and folders opened for writing, created, renamed or removed, at most 1000.

        Relative to the folder in which the program started where they lie inside it. What the program
        created and removed again is not in it.
        """
        return [self._shown(path) for path in islice(self._files, LIMIT)]

    @property
    def connections(self) -> list[str]:
        """Addresses and names outside this machine, in the order in which they were first met."""
        return list(self._connections)

    @property
    def processes(self) -> list[str]:
        """Programs that were started, in the order in which they were first met."""
        return list(self._processes)

    def install(self) -> None:
        """Start listening. Belongs before any code of the user's."""
        self.active = True
        hearers = self._hearers

        # Called for every event of the interpreter, id() among them: one look-up, then away.
        def hear(event: str, args: tuple[Any, ...]) -> None:
            if event in hearers and self.active and self._is_heard():
                hearers[event](args)

        sys.addaudithook(hear)
        after_import("torch.serialization", self._hear_torch)

    def _hear_torch(self, module: ModuleType) -> None:
        """Its writer opens paths in C++."""
        original = getattr(module, "_open_zipfile_writer", None)
        if original is None:
            return

        def opening(name_or_buffer: Any, *args: Any, **kwargs: Any) -> Any:
            if self.active and self._is_heard() and isinstance(name_or_buffer, str | os.PathLike):
                self._wrote(name_or_buffer)
            return original(name_or_buffer, *args, **kwargs)

        module._open_zipfile_writer = opening  # type: ignore[attr-defined]

    def _is_heard(self) -> bool:
        """Whether this process is listened to: what is guarded is guarded from children, too."""
        return self._before is not None or os.getpid() == self.process

    def _opened(self, args: tuple[Any, ...]) -> None:
        path, _, flags = args
        if isinstance(flags, int) and flags & WRITING:
            self._wrote(path)

    def _made_folder(self, args: tuple[Any, ...]) -> None:
        path = _full(args[0], args[2])
        if path is not None and not os.path.lexists(path):  # makedirs tries those that exist, too
            self._wrote(path)

    def _renamed(self, args: tuple[Any, ...]) -> None:
        source, target, source_folder, target_folder = args
        before, after = _full(source, source_folder), _full(target, target_folder)
        moved = [path for path, created in self._files.items() if created and path.startswith(f"{before}/")]
        for path in moved:
            del self._files[path]
        self._removed(source, source_folder)
        self._wrote(target, target_folder)
        for path in moved:
            self._keep(f"{after}{path.removeprefix(str(before))}", created=True)

    def _removed(self, path: Any, folder: int = -1) -> None:
        full = _full(path, folder)
        if full is None or not os.path.lexists(full):
            return
        if self._files.get(full):
            del self._files[full]
        else:
            self._note(full, created=False)

    def _wrote(self, path: Any, folder: int = -1) -> None:
        full = _full(path, folder)
        if full is not None:
            self._note(full, created=not os.path.lexists(full))

    def _connected(self, name: Any) -> None:
        text = _text(name) or ""
        if text.startswith("file:"):  # ``file:runs.db?mode=ro``; a plain file of that name is seldom meant
            parts = urlsplit(text)
            if "mode=ro" in parts.query or "mode=memory" in parts.query:
                return
            text = unquote(parts.path)
        self._wrote(text)
        path = _full(text) or ""
        if self._before is not None and self._files.get(path):
            for end in SQLITE_FILES:
                self._before(Path(path + end), True)

    def _note(self, path: str, *, created: bool) -> None:
        if path in self._files or (self._before is None and len(self._files) >= LIMIT):
            return
        if "/__pycache__" in path or ":memory:" in path or self._is_pseudo(path):
            return
        if created and not os.path.isdir(os.path.dirname(path)):
            return  # an attempt that fails
        self._keep(path, created=created)

    def _keep(self, path: str, *, created: bool) -> None:
        if os.path.join(path, "").startswith(self._ignored):
            return
        if self._before is not None and not (path.endswith(LOCKS) and _is_empty(path)):
            self._before(Path(path), created)
        self._files[path] = created

    def _is_pseudo(self, path: str) -> bool:
        is_guarded = self._before is not None and path.startswith(SHARED_MEMORY)
        return path.startswith(PSEUDO_FILES) and not is_guarded

    def _reached(self, address: Any) -> None:
        # Unix sockets have text addresses, netlink and vsock pairs of numbers.
        if not isinstance(address, tuple) or len(address) < 2:
            return
        host, port = _text(address[0]), address[1]
        if host and not _is_this_machine(host) and len(self._connections) < LIMIT:
            shown = f"[{host}]" if ":" in host else host
            self._connections[f"{shown}:{port}" if port else shown] = None

    def _started(self, program: Any) -> None:
        if isinstance(program, (list, tuple)) and program:
            program = program[0]
        name = _text(program)
        if name and len(self._processes) < LIMIT:
            self._processes[name] = None

    def _shown(self, path: str) -> str:
        inside = os.path.join(self._start, "")
        return path[len(inside) :] if path.startswith(inside) and path != inside else path


def _full(path: Any, folder: int = -1) -> str | None:
    """The absolute path, ``folder`` being the descriptor it is relative to; None for what is no path."""
    text = _text(path)
    if not text:
        return None
    if os.path.isabs(text):
        return os.path.normpath(text)
    try:
        base = os.getcwd() if folder < 0 else os.readlink(f"/proc/self/fd/{folder}")
    except OSError:  # the folder is gone
        return None
    return os.path.normpath(os.path.join(base, text))


def _text(value: Any) -> str | None:
    """Text of a name or path as the audit events hand it over; None for descriptors and the rest."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return value if isinstance(value, str) else None


def _is_empty(path: str) -> bool:
    return not os.path.lexists(path) or os.path.getsize(path) == 0


def _present_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _is_this_machine(host: str) -> bool:
    name = host.lower().removeprefix("::ffff:").split("%")[0]
    own = os.uname().nodename.lower()
    return name.startswith("127.") or name in {"localhost", "::1", "::", "0.0.0.0", "0", own}
