"""Scripts that make a process group of their own: the environment in which their ranks find each other.

What ``torchrun`` would set, without ``torchrun``: its exit code classifies nothing, its workers outlive it
when it is killed, and it listens on every interface. Here the store lives in the tuner and listens on
127.0.0.1 alone.
"""

import ast
import os
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

HOST = "127.0.0.1"
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
RANK_VARIABLES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
    "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
)  # fmt: skip
"""What tells a program that it is one of several ranks."""
ASKED = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})
MAKERS = frozenset(
    {
        "init_process_group",
        "init_device_mesh",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
        "Accelerator",
    }
)
"""What a script calls that trains in several processes, if the environment says so."""


class OwnGroup:
    """The meeting point of the ranks of one trial; it must stay until they have ended.

    Imports torch, in the tuner.

    Args:
        ranks: How many, all on this machine.
        threads: Of each rank; where ``None`` what the environment says, or one as under ``torchrun``.
        timeout_s: How long a rank may wait for the others.
    """

    def __init__(self, ranks: int, *, threads: int | None = None, timeout_s: float = 300.0) -> None:
        self.ranks = ranks
        self._threads = str(threads or os.environ.get("OMP_NUM_THREADS") or 1)
        self._run = uuid.uuid4().hex
        self._store: object = None  # torch's; kept alive and never asked
        self._port = self._open(timedelta(seconds=timeout_s))

    def environment(self, rank: int) -> dict[str, str]:
        """Variables of one rank, on top of what every trial has."""
        return {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.ranks),
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "ROLE_RANK": str(rank),
            "ROLE_NAME": "default",
            "ROLE_WORLD_SIZE": str(self.ranks),
            "MASTER_ADDR": HOST,
            "MASTER_PORT": str(self._port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # every rank becomes a client of the store in the tuner
            "TORCHELASTIC_RUN_ID": self._run,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
            "GLOO_SOCKET_IFNAME": LOOPBACK,
            "NCCL_SOCKET_IFNAME": LOOPBACK,
            "OMP_NUM_THREADS": self._threads,
        }

    def close(self) -> None:
        """End the store; ranks that still wait for it fail."""
        self._store = None  # the last reference: torch stops listening when it goes

    def _open(self, timeout: timedelta) -> int:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]  # handed on without saying so

        listener = socket.socket()
        try:
            listener.bind((HOST, 0))  # torch itself would bind every interface
            listener.listen()
            port = int(listener.getsockname()[1])
            self._store = TCPStore(
                HOST, port, None, True, timeout=timeout, wait_for_workers=False,
                master_listen_fd=listener.fileno(),
            )  # fmt: skip
            listener.detach()  # torch closes it
        finally:
            listener.close()
        return port


def wants_own_group(source_file: Path) -> bool:
    """Whether a script takes part in a process group when its environment says that it is a rank.

    Judged by its text alone: it calls what makes a group, or asks the environment for its rank. A script that
    starts its own processes (``torch.multiprocessing.spawn``), or says itself which rank it is, cannot be
    started as ranks.
    """
    try:
        tree = ast.parse(source_file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # running it says what is wrong
        return False
    called = {name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in _called(node)}
    aliases = dict(_imported(tree))
    called |= {aliases[name] for name in called & aliases.keys()}
    if "spawn" in called or "start_processes" in called or any(map(_sets_rank, ast.walk(tree))):
        return False
    return (
        bool(called & MAKERS) or _trains_by_trainer(tree, called) or any(map(_asks_for_rank, ast.walk(tree)))
    )


def _called(call: ast.Call) -> Iterator[str]:
    """The last part of the name that is called."""
    if isinstance(call.func, ast.Name):
        yield call.func.id
    elif isinstance(call.func, ast.Attribute):
        yield call.func.attr


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that stand for others: ``from torch.nn.parallel import DistributedDataParallel as DDP``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)


def _trains_by_trainer(tree: ast.AST, called: set[str]) -> bool:
    """Whether the trainer of transformers is used, which is an ``Accelerator`` inside."""
    trainers = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in ("transformers", "trl")
        for alias in node.names
        if alias.name.endswith("Trainer")
    }
    return bool(trainers & called)


def _asks_for_rank(node: ast.AST) -> bool:
    """``os.environ["RANK"]``, ``os.environ.get("RANK")``, ``os.getenv("RANK")``, ``"RANK" in os.environ``."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and _is_environ(node.value) and _is_asked(node.slice)
    if isinstance(node, ast.Compare):
        return _is_asked(node.left) and any(_is_environ(each) for each in node.comparators)
    if not isinstance(node, ast.Call) or not node.args or not _is_asked(node.args[0]):
        return False
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "get":
        return _is_environ(function.value)
    return "getenv" in _called(node)


def _sets_rank(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and _is_environ(node.value)
        and _is_asked(node.slice)
    )


def _is_environ(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )


def _is_asked(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in ASKED


def own_device(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that show a process no other GPU than its own, which it then calls ``cuda:0``.

    Args:
        device: ``cpu`` or ``cuda:N``, counted among the devices visible to the tuner.
        environment: The tuner's own.
    """
    if not device.startswith("cuda"):
        return {}
    number = device.partition(":")[2] or "0"
    visible = [each for each in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    return {"CUDA_VISIBLE_DEVICES": visible[int(number)] if visible else number}
