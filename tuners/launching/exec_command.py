"""What a launcher's command is about: which Python program of it is the target, and what stands against it.

Nothing is run; the command and a shell script in it are read.
"""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.base.errors import UsageError, clean

EXAMPLE = "`advisor tune --exec -- torchrun --nproc-per-node 2 train.py`"
PYTHON = (".py", ".pyw")
LAUNCHERS = frozenset(
    {"accelerate", "advisor", "coverage", "deepspeed", "horovod", "lightning", "pdb", "torch"}
)
"""Packages whose modules, after ``-m``, start a program and are none."""
SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
NAMED_IN_SHELL = re.compile(r"[^\s'\"=;|&()<>`]+\.pyw?\b")
MOST_SHELL = 2**20  # characters of a shell script that are read
RESTARTS = ("--max-restarts", "--max_restarts")
NODES = ("--nnodes", "--num-machines", "--num_machines")
ENDPOINTS = ("--rdzv-endpoint", "--rdzv_endpoint")
PORTS = ("--master-port", "--master_port", "--main-process-port", "--main_process_port")
ADDRESSES = ("--master-addr", "--master_addr", "--main-process-ip", "--main_process_ip")
IN_SHELL = re.compile(r"([^\s'\"=;|&()<>]+):\$\{?ADVISOR_PORT")
ADDRESS = re.compile(r"--(?:master.addr|main.process.ip)[= ]([^\s'\";|&()<>]+)")
PORT_VARIABLE = (
    "ADVISOR_PORT"  # where a shell script finds the port of its rendezvous, another one at each start
)


@dataclass(frozen=True)
class Wanted:
    """The program that is to be measured; the first of these that is not empty tells which one it is.

    Attributes:
        file: Its real path.
        module: Its name behind ``-m``.
        name: Its file's name, where its folder is not known before.
        under: Else: the first file of Python below this folder.
    """

    file: str = ""
    module: str = ""
    name: str = ""
    under: str = ""

    @property
    def shown(self) -> str:
        """For messages."""
        return os.path.basename(self.file) or self.module or self.name or "a Python program"


def find_wanted(command: Sequence[str], cwd: Path) -> Wanted:
    """The target of a command: the first Python file in it, or the last one that its shell script names."""
    return _named(command, cwd)[0] or _in_shell(command, cwd) or Wanted(under=str(cwd))


def check_command(command: Sequence[str], cwd: Path) -> None:
    """Refuse a command that cannot be measured.

    Raises:
        UsageError: It is empty or cannot start, restarts failed ranks, or starts on several machines in a way
            that cannot be measured.
    """
    if not command:
        raise UsageError("--exec needs a command after `--`", hint=EXAMPLE)
    program = str(cwd / command[0]) if os.sep in command[0] else command[0]
    if shutil.which(program) is None:
        raise UsageError(f"no such command: {clean(command[0])}", where="--exec", hint=EXAMPLE)
    launching = command[: _named(command, cwd)[1]]
    restarts = _option(launching, RESTARTS)
    if restarts not in (None, "0"):
        raise restarting(restarts or "")
    several_machines(command, cwd)


@dataclass(frozen=True)
class Machines:
    """What a command says of the several machines that it trains on.

    Attributes:
        at: Positions of words that hold the port of that meeting.
        host: Where they meet; empty where that is not said plainly.
    """

    at: tuple[int, ...]
    host: str = ""

    def with_port(self, command: Sequence[str], port: int) -> tuple[str, ...]:
        """The same command with another port: two starts of it may run side by side."""
        words = list(command)
        for at in self.at:
            name, equals, value = words[at].rpartition("=")
            host, colon, _ = value.rpartition(":")
            is_endpoint = (name or words[at - 1]) in ENDPOINTS
            words[at] = f"{name}{equals}{f'{host if colon else value}:' if is_endpoint else ''}{port}"
        return tuple(words)


def several_machines(command: Sequence[str], cwd: Path) -> Machines | None:
    """How a command that spans several machines meets; ``None`` for one machine.

    Raises:
        UsageError: Their number varies, or two starts of the command would meet at one port.
    """
    launching = command[: _named(command, cwd)[1]]
    text, _ = _shell_script(command, cwd)
    if PORT_VARIABLE in text:
        return Machines((), _plain(IN_SHELL.search(text), ADDRESS.search(text)))
    nodes = _option(launching, NODES)
    written = text.split() if nodes is None else []
    nodes = _option(written, NODES) if nodes is None else nodes
    least, _, most = (nodes or "1").partition(":")
    if most not in ("", least):
        message = f"{clean(nodes or '')} machines: how many take part must not vary between trials"
        raise UsageError(message, where="--exec", hint=f"`--nnodes={most}`")
    if least == "1" or (written and not least.isdecimal()):
        return None
    if written:
        message = (
            f"{clean(least)} machines: each start of the script needs a port of its own for its rendezvous"
        )
        hint = f"write `--rdzv-endpoint HOST:${PORT_VARIABLE}` into it: advisor sets that variable"
        raise UsageError(message, where="--exec", hint=hint)
    at = tuple(_positions(launching, (*ENDPOINTS, *PORTS)))
    if not at:
        message = f"{clean(least)} machines, and the command does not say where their ranks meet"
        raise UsageError(message, where="--exec", hint="`--rdzv-backend c10d --rdzv-endpoint HOST:PORT`")
    endpoint = _option(launching, ENDPOINTS) or ""
    host = _option(launching, ADDRESSES) or endpoint.rpartition(":")[0] or endpoint
    return Machines(at, host.strip("[]"))


def _plain(*found: re.Match[str] | None) -> str:
    """The first host that a script names, rather than a variable that holds it."""
    return next((each[1].strip("[]") for each in found if each is not None and "$" not in each[1]), "")


def _positions(words: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where the values of options stand, alone or behind an equals sign."""
    joined = [at for at, word in enumerate(words) if word.partition("=")[0] in names and "=" in word]
    parted = [at + 1 for at, word in enumerate(words[:-1]) if word in names]
    return sorted([*joined, *parted])


def restarting(times: str) -> UsageError:
    """The command starts failed ranks again."""
    return UsageError(
        f"the command restarts failed ranks ({clean(times)} times), which makes another measurement of it",
        where="--exec",
        hint="`--max-restarts=0`",
    )


def _named(command: Sequence[str], cwd: Path) -> tuple[Wanted | None, int]:
    """The program that the command itself names, and where; without one all of it is the launcher's."""
    for at, word in enumerate(command):
        following = command[at + 1] if at + 1 < len(command) else ""
        if word in ("-m", "--module") and MODULE.match(following):
            if following.partition(".")[0] not in LAUNCHERS:
                return Wanted(module=following), at
        elif word.endswith(PYTHON) and (cwd / word).is_file():
            return Wanted(file=os.path.realpath(cwd / word)), at
    return None, len(command)


def _in_shell(command: Sequence[str], cwd: Path) -> Wanted | None:
    """What a shell script runs last, judged by the files of Python that it names."""
    text, folder = _shell_script(command, cwd)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    names = NAMED_IN_SHELL.findall("\n".join(lines))
    if not names:
        return None
    for place in (cwd, folder):
        if (place / names[-1]).is_file():
            return Wanted(file=os.path.realpath(place / names[-1]))
    name = names[-1].rpartition("/")[2]
    return None if "$" in name else Wanted(name=name)


def _shell_script(command: Sequence[str], cwd: Path) -> tuple[str, Path]:
    """The text of the shell script that a command runs, and its folder; empty where there is none."""
    for at, word in enumerate(command):
        if word == "-c" and os.path.basename(command[at - 1]) in SHELLS and at + 1 < len(command):
            return command[at + 1], cwd
        path = cwd / word
        if word and path.is_file() and _is_shell_script(path):
            with path.open(errors="replace") as stream:
                return stream.read(MOST_SHELL), path.parent
    return "", cwd


def _is_shell_script(path: Path) -> bool:
    if path.suffix in (".sh", ".bash"):
        return True
    with path.open("rb") as stream:
        first = stream.readline(256).split()
    return bool(first) and first[0][:2] == b"#!" and any(part.endswith(b"sh") for part in first[:2])


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of an option; the last one counts."""
    found = None
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else next(iter(words[at + 1 : at + 2]), None)
    return found
