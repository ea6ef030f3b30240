"""Two nodes of a real Ray and of a real SLURM on this machine, in a network namespace of its own."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from advisor.tuners.benches.engine import BenchLost, Engine, Line, Node
from advisor.tuners.benches.ray_engine import RayEngine
from advisor.tuners.benches.srun_engine import SrunEngine

ADDRESSES = ("10.77.0.1", "10.77.0.2")  # `make cluster` gives them to the loopback interface
CPUS = ("0", "1")  # of the nodes, as taskset takes them; the first is that of the tuner
WIDE = ("0", "0,1")  # whose second node is of another kind
START_S = 300.0  # a Ray takes half a minute of a CPU to start
WAIT_S = 120.0  # for a line of a process on a node
COUNTING = "import itertools, time\nfor n in itertools.count(): print(n, flush=True); time.sleep(0.01)"
SLURM_COMMANDS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "scontrol", "scancel")
SLURM_CONF = """
ClusterName=two
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=26817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=26821 CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=26822 CPUs={wide} RealMemory=1000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


@dataclass
class Cluster:
    """A cluster that stands.

    Attributes:
        variables: For a tuner in it.
        daemon: Finds the process that looks after the node on which this process does not run.
        head: Finds the one that looks after all of them.
    """

    engine: Callable[..., Engine]
    variables: dict[str, str]
    daemon: Callable[[], psutil.Process]
    head: Callable[[], psutil.Process]


def skip_without(*, module: str = "", commands: tuple[str, ...] = ()) -> None:
    """Skip where something is missing, or the loopback interface is not that of ``make cluster``."""
    missing = [name for name in commands if shutil.which(name, path=_path()) is None]
    if module and importlib.util.find_spec(module) is None:
        missing.append(module)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    addresses = {each.address for each in psutil.net_if_addrs().get("lo", [])}
    if not addresses.issuperset(ADDRESSES) or set(psutil.net_if_addrs()) != {"lo"}:
        pytest.skip("not in a network namespace of its own; `make cluster` makes one")


def a_cluster(name: str, *, wide: bool = False) -> AbstractContextManager[Cluster]:
    """One of ``ray`` or ``slurm``, if it is installed.

    Args:
        name: Of the engine.
        wide: The node on which this process does not run has both CPUs, so it is of another kind.
    """
    cpus = WIDE if wide else CPUS
    if name == "ray":
        skip_without(module="ray")
        return a_ray(cpus)
    skip_without(commands=SLURM_COMMANDS)
    return a_slurm(cpus)


def _count(cpus: str) -> int:
    return len(cpus.split(","))


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def found(*words: str) -> psutil.Process:
    """The one process of this network namespace whose command has all the words.

    What a daemon forks has its command too, until it runs another program.
    """
    named = [
        each for each in psutil.process_iter(["cmdline", "ppid"])
        if all(any(word in part for part in each.info["cmdline"] or ()) for word in words)
        and _network(each.pid) == _network(os.getpid())
    ]  # fmt: skip
    pids = {each.pid for each in named}
    (process,) = [each for each in named if each.info["ppid"] not in pids]
    return process


def _network(pid: int) -> str:
    """Of a process; empty where it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


@contextmanager
def a_ray(cpus: Sequence[str]) -> Iterator[Cluster]:
    """Two raylets with CPUs of their own, and a token."""
    folder = Path(tempfile.mkdtemp(prefix="ar-", dir="/tmp"))  # short: sockets lie in it
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, **variables, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray = [sys.executable, "-m", "ray.scripts.scripts"]

    def start(place: int, *options: str) -> None:
        subprocess.run(
            ["taskset", "-c", cpus[place], *ray, "start", f"--node-ip-address={ADDRESSES[place]}",
             f"--num-cpus={_count(cpus[place])}", "--object-store-memory=80000000", *options],
            check=True, capture_output=True, timeout=START_S,
            env=environment,
        )  # fmt: skip

    try:
        start(0, "--head", "--port=6399", "--include-dashboard=false", f"--temp-dir={folder}/r")
        start(1, f"--address={ADDRESSES[0]}:6399")
        yield Cluster(
            RayEngine, {**variables, "RAY_ADDRESS": f"{ADDRESSES[0]}:6399"},
            lambda: found("/raylet/raylet", f"--node_ip_address={ADDRESSES[1]}"),
            lambda: found("/gcs_server"),
        )  # fmt: skip
    finally:
        _end_below(str(folder))


@contextmanager
def a_slurm(cpus: Sequence[str]) -> Iterator[Cluster]:
    """A controller and two daemons of nodes, each kept to its CPUs, and an allocation of both nodes."""
    folder = Path(tempfile.mkdtemp(prefix="as-", dir="/tmp"))
    folder.chmod(0o755)
    for name in ("munge", "state", "n1", "n2"):
        (folder / name).mkdir()
    key, host = folder / "munge.key", socket.gethostname()
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    for each in (key, folder / "munge"):
        shutil.chown(each, "munge", "munge")
    conf = folder / "slurm.conf"
    conf.write_text(SLURM_CONF.format(folder=folder, host=host, wide=_count(cpus[1])))
    environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(conf)}

    def started(*command: str) -> str:
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=START_S, env=environment
        ).stderr

    munge = [
        f"--{name}={folder}/munge/{name.partition('-')[0]}" for name in ("pid-file", "log-file", "seed-file")
    ]
    try:
        started(
            "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--force",
            f"--key-file={key}", f"--socket={folder}/munge/socket", *munge,
        )  # fmt: skip
        started("slurmctld", "-f", str(conf))
        for place, name in enumerate(("n1", "n2")):
            started("taskset", "-c", cpus[place], "slurmd", "-N", name, "-f", str(conf))
        job = started("salloc", "--nodes=2", "--exclusive", "--no-shell").split("allocation ")[-1].split()[0]
        variables = {
            "PATH": _path(), "SLURM_CONF": str(conf), "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURM_JOB_CPUS_PER_NODE": ",".join(str(_count(each)) for each in cpus),
            "SLURMD_NODENAME": "n1",
        }  # fmt: skip
        yield Cluster(
            SrunEngine, variables, lambda: found("slurmd", "n2"), lambda: found("slurmctld", str(conf))
        )
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, check=False, timeout=START_S)
        _end_below(str(folder))


def _end_below(folder: str) -> None:
    """End all processes whose command or working directory names the folder, and remove it.

    A daemon of a step has no command, and outlives a controller that it cannot tell of its end.
    """
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        left = [
            each for each in psutil.process_iter(["cmdline", "cwd"])
            if any(folder in part for part in (*(each.info["cmdline"] or ()), each.info["cwd"] or ""))
        ]  # fmt: skip
        if not left:
            break
        for each in left:
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)


def other(engine: Engine) -> Node:
    """The node on which this process does not run."""
    (node,) = [node for node in engine.nodes() if not node.here]
    return node


def opened(engine: Engine, program: str) -> Line:
    """A Python program on the other node."""
    return engine.open(other(engine), [sys.executable, "-c", program])


def counted(line: Line, limit_s: float) -> list[int]:
    """All numbers that come until the line is lost."""
    numbers, gives_up = [], time.monotonic() + limit_s
    try:
        while time.monotonic() < gives_up:
            text = line.receive(1.0)
            if text is not None:
                numbers.append(int(text))
    except BenchLost:
        return numbers
    raise AssertionError(f"not lost within {limit_s} s, {len(numbers)} lines came")


def running(words: str) -> list[psutil.Process]:
    """Processes of this network namespace whose command has the words."""
    here, every = _network(os.getpid()), psutil.process_iter(["cmdline"])
    named = [each for each in every if words in " ".join(each.info["cmdline"] or ())]
    return [each for each in named if _network(each.pid) == here]


def programs() -> list[psutil.Process]:
    """Those of ``COUNTING`` on a node."""
    return [each for each in running(COUNTING) if each.info["cmdline"][1:] == ["-c", COUNTING]]
