"""Do the cost laws of ``advisor plan`` tell what three and four hosts take where the network is slow?

    python -m benchmarks.slow_network_plan [--short] [--resume] [--out FILE]

Needs root on Linux and iproute2. Six network namespaces hang on one bridge, each by a cable that lets 100
Mbit/s through in either direction; four hold a worker each, two a parameter server. Every scheme is run with
two workers and predicted for three and four, ``t(2) + law(n) - law(2)``: what was measured stays measured,
the law tells the difference. The law gets the bytes of the gradients and the speed of the cable less the
heads of TCP, nothing fitted. Then the same counts are run. A ranking is right if schemes whose runs lie
further apart than 10 % stand in the order that was predicted. What was run is written after each of the
nine runs; ``--resume`` goes on from there. ``--short`` measures three steps in place of five.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.planning.fabric import Fabric, Link
from advisor.planning.law import Law, Work
from advisor.planning.laws.parameter_server import ParameterServer
from advisor.planning.laws.ring import Ring
from benchmarks.conditions import conditions
from benchmarks.network_rank import make_model

RESULTS = Path(__file__).parent / "results" / "slow_network_plan.json"
BRIDGE, HOSTS = "advisor-br", 6
MBIT = 100
PAYLOAD = 1448 / 1514  # of a full frame of TCP over Ethernet with time stamps
BATCH = 12  # of a worker: computing is to be small beside the network
WARMUP, STEPS = 2, 5
SHORT_WARMUP, SHORT_STEPS = 1, 3
LIMIT_S = 300.0
SAME = 0.10  # runs closer than this need not be ranked
BASE, COUNTS = 2, (3, 4)
SCHEMES: dict[str, tuple[str, int, Law]] = {
    "ring": ("ddp", 0, Ring()),
    "parameter server": ("parameter_server", 1, ParameterServer()),
    "parameter server, 2 servers": ("parameter_server", 2, ParameterServer()),
}


@dataclass(frozen=True)
class Row:
    """One scheme with some workers: seconds of a step as run and as predicted; ``error`` is relative."""

    scheme: str
    workers: int
    run_s: float
    predicted_s: float
    error: float


Ran = dict[tuple[str, int], float]  # seconds of a step by scheme and number of workers


def main() -> None:
    """Run, predict, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--short", action="store_true", help="three steps a run")
    parser.add_argument("--resume", action="store_true", help="keep the runs that the file has")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    warmup, steps = (SHORT_WARMUP, SHORT_STEPS) if options.short else (WARMUP, STEPS)
    ran = stored_runs(options.out) if options.resume else {}
    left = [key for key in itertools.product(SCHEMES, (BASE, *COUNTS)) if key not in ran]
    started = time.monotonic()
    with hosts():
        for number, (scheme, workers) in enumerate(left, 1):
            ran[scheme, workers] = step_s(scheme, workers, warmup, steps)
            options.out.write_text(json.dumps(told(ran, steps), indent=1) + "\n", encoding="utf-8")
            print(
                f"{number} of {len(left)}, {time.monotonic() - started:.0f} s: {scheme}, {workers} workers: "
                f"{ran[scheme, workers]:.3f} s a step",
                flush=True,
            )
    found = told(ran, steps)
    for row in predicted_beside(ran):
        print(f"{row.scheme}, {row.workers} workers: predicted {row.predicted_s:.3f} s, {row.error:+.1%}")
    wrong = ", ".join(found["wrong"]) or "none"
    print(f"largest error {found['largest_error']:.1%}; rankings wrong: {wrong}")


def told(ran: Ran, steps: int) -> dict[str, Any]:
    """What is written; ``largest_error`` is ``None`` while no count can be predicted yet."""
    rows = predicted_beside(ran)
    return {
        "conditions": conditions(), "mbit": MBIT, "steps": steps,
        "largest_error": max((abs(row.error) for row in rows), default=None), "wrong": wrong_rankings(rows),
        "measured_s": {scheme: seconds for (scheme, workers), seconds in ran.items() if workers == BASE},
        "rows": [asdict(row) for row in rows],
    }  # fmt: skip


def stored_runs(path: Path) -> Ran:
    """The runs that a file holds; none where there is no file."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    ran = {(scheme, BASE): float(seconds) for scheme, seconds in found["measured_s"].items()}
    return ran | {(row["scheme"], row["workers"]): float(row["run_s"]) for row in found["rows"]}


def predicted_beside(ran: Mapping[tuple[str, int], float]) -> list[Row]:
    """The runs with more workers than two, each with what its law makes of the run with two, if both are."""
    size = float(sum(value.nbytes for value in make_model().parameters()))
    link = Link(0.0, MBIT * 1e6 / 8 * PAYLOAD)
    rows = []
    for (scheme, (_, servers, law)), workers in itertools.product(SCHEMES.items(), COUNTS):
        if not {(scheme, BASE), (scheme, workers)} <= ran.keys():
            continue
        work = Work(gradient_bytes=size, servers=max(1, servers))
        more, before = (law.seconds(work, Fabric(n, n, link, link)) for n in (workers, BASE))
        predicted, run = ran[scheme, BASE] + more - before, ran[scheme, workers]
        rows.append(Row(scheme, workers, run, predicted, predicted / run - 1))
    return rows


def wrong_rankings(rows: Sequence[Row]) -> list[str]:
    """Pairs at one count whose runs differ clearly and whose predictions stand the other way round."""
    return [
        f"{fast.scheme} before {slow.scheme} with {fast.workers}"
        for fast, slow in itertools.permutations(rows, 2)
        if fast.workers == slow.workers
        and slow.run_s > (1 + SAME) * fast.run_s
        and slow.predicted_s <= fast.predicted_s
    ]


@contextmanager
def hosts() -> Iterator[None]:
    """Network namespaces on one bridge, in a namespace of its own, with slow cables; gone afterwards."""
    _remove()
    try:
        _run("ip", "netns", "add", BRIDGE)
        _run("ip", "-n", BRIDGE, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", BRIDGE, "link", "set", "br0", "up")
        for k in range(HOSTS):
            name, port = _name(k), f"port{k}"
            _run("ip", "netns", "add", name)
            _run(
                "ip", "-n", BRIDGE, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                "netns", name,
            )  # fmt: skip
            _run("ip", "-n", BRIDGE, "link", "set", port, "master", "br0", "up")
            _run("ip", "-n", name, "addr", "add", f"10.78.0.{k + 1}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _run("ip", "-n", name, "link", "set", device, "up")
            _slow(name, "eth0")
            _slow(BRIDGE, port)
        yield
    finally:
        _remove()


def step_s(scheme: str, workers: int, warmup: int, steps: int) -> float:
    """Seconds of a step, the mean over workers.

    Raises:
        RuntimeError: A worker failed.
        subprocess.TimeoutExpired: One took longer than ``LIMIT_S``.
    """
    strategy, servers, _ = SCHEMES[scheme]
    config = {"servers": servers} if servers else {}
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(workers + servers):
            spec = {
                "rank": rank, "workers": workers, "servers": servers, "strategy": strategy, "config": config,
                "folder": folder, "interface": "eth0", "warmup": warmup, "steps": steps,
                "batch": BATCH * workers,
            }  # fmt: skip
            host = _name(rank if rank < workers else HOSTS - 1 - (rank - workers))
            command = (sys.executable, "-m", "benchmarks.network_rank", "--spec", json.dumps(spec))
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            started = ("ip", "netns", "exec", host, *command)
            processes.append(subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True))
        try:
            told = [process.communicate(timeout=LIMIT_S)[0] for process in processes[:workers]]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    if any(process.returncode for process in processes[:workers]):
        raise RuntimeError(f"a worker of {scheme} failed")
    return statistics.fmean(float(json.loads(each.splitlines()[-1])["step_s"]) for each in told)


def _slow(name: str, device: str) -> None:
    _run(
        "ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", device, "root", "tbf",
        "rate", f"{MBIT}mbit", "burst", "64kb", "latency", "200ms",
    )  # fmt: skip


def _name(host: int) -> str:
    return f"advisor-p{host}"


def _remove() -> None:
    for name in (BRIDGE, *map(_name, range(HOSTS))):
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
