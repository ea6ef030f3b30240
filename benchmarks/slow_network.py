"""How do strategies rank where the network is slow? Two hosts, joined by a cable whose speed is limited.

    python -m benchmarks.slow_network
    python -m benchmarks.slow_network --rates 100mbit --cases ddp local_sgd

Needs root on Linux and iproute2: the hosts are network namespaces, the cable is a veth pair with a token
bucket filter (``tc``) at either end. One worker runs on each host, with one thread; servers of a parameter
server on the first host, the second server on the other. The model is an MLP of 1.6 million parameters,
6.5 MB; the global batch is 64. Bytes are those that the interfaces of the hosts counted, per update.

What theory says: with two hosts a ring all-reduce and a parameter server both carry all gradients once in
either direction; half the bits take half the bytes; averaging every n-th step takes an n-th part.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.conditions import conditions

RESULTS = Path(__file__).parent / "results" / "slow_network.json"
HOSTS = (("advisor-a", "advisor-va", "10.77.0.1"), ("advisor-b", "advisor-vb", "10.77.0.2"))
RATES = ("1gbit", "100mbit")
CASES: dict[str, tuple[str, dict[str, int | str]]] = {
    "ddp": ("ddp", {}),
    "ddp, fp16": ("ddp", {"communication_hook": "fp16"}),
    "ddp, 8 bit": ("ddp", {"communication_hook": "int8"}),
    "ddp, top-k": ("ddp", {"communication_hook": "topk"}),
    "ddp, PowerSGD": ("ddp", {"communication_hook": "powersgd"}),
    "zero": ("zero", {}),
    "fsdp": ("fsdp", {}),
    "local SGD, every 4": ("local_sgd", {"averaging_period": 4}),
    "local SGD, every 16": ("local_sgd", {"averaging_period": 16}),
    "parameter server": ("parameter_server", {}),
    "parameter server, 2 servers": ("parameter_server", {"servers": 2}),
    "parameter server, asynchronous": ("parameter_server", {"staleness": "unbounded"}),
}
WARMUP, STEPS = 4, 16
LIMIT_S = 180.0


@dataclass(frozen=True)
class Row:
    """One strategy at one speed of the network.

    ``sent`` are bytes per update at both hosts' interfaces, ``predicted`` what the strategy says that a
    worker sends, as a mean over workers where they differ; with ddp also, for each of its collectives, the
    ``heads``: what small all-reduces on the same network sent beside their values before training. Of a
    parameter server the second worker counts, as its server is on the other host. ``error`` is relative.
    """

    case: str
    rate: str
    step_ms: float
    slowest_ms: float
    sent: tuple[float, float]
    predicted: float
    heads: float
    error: float
    report: dict[str, Any]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", nargs="+", default=RATES, help="as tc spells them")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    rows: list[Row] = []
    with hosts():
        for rate in options.rates:
            limit(rate)
            for case in options.cases:
                rows.append(measure(case, rate))
                print(rows[-1], flush=True)
        torchrun = two_node_torchrun()
        print("torchrun over two nodes:", torchrun, flush=True)
    found = {
        "conditions": conditions(), "rates": list(options.rates), "steps": STEPS,
        "rows": [asdict(row) for row in rows], "torchrun_losses": torchrun,
    }  # fmt: skip
    options.out.write_text(json.dumps(found, indent=1) + "\n")


@contextmanager
def hosts() -> Iterator[None]:
    """Two network namespaces joined by a pair of interfaces; gone afterwards."""
    _remove()
    try:
        for name, _, _ in HOSTS:
            _run("ip", "netns", "add", name)
        (_, first, _), (_, second, _) = HOSTS
        _run("ip", "link", "add", first, "type", "veth", "peer", "name", second)
        for name, interface, address in HOSTS:
            _run("ip", "link", "set", interface, "netns", name)
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", interface)
            for device in (interface, "lo"):
                _run("ip", "-n", name, "link", "set", device, "up")
        yield
    finally:
        _remove()


def limit(rate: str) -> None:
    """Let no more than ``rate`` through in either direction."""
    for name, interface, _ in HOSTS:
        _run(
            "ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", interface, "root", "tbf",
            "rate", rate, "burst", "256kb", "latency", "200ms",
        )  # fmt: skip


def measure(case: str, rate: str) -> Row:
    """Train for some steps with one worker on each host."""
    strategy, config = CASES[case]
    servers = int(config.get("servers", 1)) if strategy == "parameter_server" else 0
    with tempfile.TemporaryDirectory() as folder:
        processes = [_start(rank % 2, rank, servers, strategy, config, folder) for rank in range(2 + servers)]
        try:
            told = [json.loads(_output(process).splitlines()[-1]) for process in processes[:2]]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    sent = (told[0]["sent"], told[1]["sent"])
    report = told[1]["report"]
    heads = statistics.fmean(each["heads"] for each in told)
    predicted = report["bytes_per_step"] + heads * report.get("collectives_per_update", 0)
    counted = sent[1] if servers else statistics.fmean(sent)
    return Row(
        case,
        rate,
        step_ms=1000 * statistics.fmean(each["step_s"] for each in told),
        slowest_ms=1000 * max(each["step_s"] for each in told),
        sent=sent,
        predicted=predicted,
        heads=heads,
        error=counted / predicted - 1,
        report=report,
    )


def two_node_torchrun() -> list[float]:
    """The losses of two ranks that torchrun started on the two hosts."""
    launcher = (
        sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1",
        f"--master-addr={HOSTS[0][2]}", "--master-port=29771", "--max-restarts=0",
    )  # fmt: skip
    target = ("-m", "benchmarks.network_rank", "--torchrun")
    processes = [
        _on(host, interface, *launcher, f"--node-rank={number}", *target)
        for number, (host, interface, _) in enumerate(HOSTS)
    ]
    try:
        outputs = [_output(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [float(json.loads(output.splitlines()[-1])["loss"]) for output in outputs]


def _start(
    host: int, rank: int, servers: int, strategy: str, config: Mapping[str, int | str], folder: str
) -> "subprocess.Popen[str]":
    spec = {
        "rank": rank, "servers": servers, "strategy": strategy, "config": dict(config), "folder": folder,
        "interface": HOSTS[host][1], "warmup": WARMUP, "steps": STEPS,
    }  # fmt: skip
    command = (sys.executable, "-m", "benchmarks.network_rank", "--spec", json.dumps(spec))
    return _on(HOSTS[host][0], HOSTS[host][1], *command)


def _on(host: str, interface: str, *command: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        ["ip", "netns", "exec", host, *command], env=environment, stdout=subprocess.PIPE, text=True
    )


def _output(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=LIMIT_S)
    if process.returncode:
        raise RuntimeError(f"a rank ended with exit status {process.returncode}")
    return output


def _remove() -> None:
    for name, _, _ in HOSTS:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
