"""One rank of ``benchmarks/slow_network.py``: trains for some steps and prints what they took as JSON."""

import argparse
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_reduce
from advisor.tuners.place import HERE, Place
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.trial.loop import train
from advisor.workloads.workload import Workload

BATCH, WIDTHS = 64, (512, 1024, 1024, 10)
SMALL_ONES, FEW = 100, 64  # all-reduces that are counted, and their values


def workload(batch: int = BATCH) -> Workload:
    """An MLP of wide layers on random data; ``batch`` samples an update over all workers."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(4096, WIDTHS[0], generator=generator)
    targets = torch.randint(0, WIDTHS[-1], (4096,), generator=generator)
    return Workload(
        model=make_model,
        dataset=lambda: TensorDataset(inputs, targets),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        batch_size=batch,
    )


def make_model() -> nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def run(spec: dict[str, Any]) -> None:
    """Train as one of the workers, two unless told, or serve."""
    torch.manual_seed(0)
    workers = spec.get("workers", 2)
    task = workload(spec.get("batch", BATCH))
    HERE.place = Place(
        spec["rank"], workers, spec["servers"], f"{spec['folder']}/rendezvous", timeout_s=150.0, learning=True
    )
    HERE.config = {"strategy": spec["strategy"], "ranks": workers, **spec["config"]}
    HERE.join()
    strategy = STRATEGIES[spec["strategy"]]
    if HERE.place.serves:
        strategy.serve(task)
        return
    counted, updated = Counted(spec), strategy.updated
    if spec["strategy"] == "ddp" and workers == 2:
        counted.heads = heads_of_a_collective(counted)

    def count(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        updated(model, optimizer)
        counted.update(strategy.report)

    strategy.updated = count  # type: ignore[method-assign]
    train(task, "cpu", spec["warmup"] + spec["steps"] + 100, strategy)


def heads_of_a_collective(counted: "Counted") -> float:
    """Bytes that the interface sends for one small all-reduce beside its values: heads, acknowledgements."""
    small = torch.zeros(FEW)
    for _ in range(5):
        torch.distributed.all_reduce(small)
    _, before = counted.now()
    for _ in range(SMALL_ONES):
        torch.distributed.all_reduce(small)
    _, after = counted.now()
    return (after - before) / SMALL_ONES - all_reduce(small.nbytes, 2)


class Counted:
    """Counts updates, and the bytes of the interface and the time that they take."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._folder = Path("/sys/class/net") / spec["interface"] / "statistics"
        self._warmup, self._steps = spec["warmup"], spec["steps"]
        self._updates = 0
        self._before = (0.0, 0)
        self.heads = 0.0

    def update(self, report: Any) -> None:
        """One more; ends the process after the last."""
        self._updates += 1
        if self._updates == self._warmup:
            self._before = self.now()
        if self._updates < self._warmup + self._steps:
            return
        spent = [(b - a) / self._steps for a, b in zip(self._before, self.now(), strict=True)]
        told = {"step_s": spent[0], "sent": spent[1], "heads": self.heads, "report": report()}
        print(json.dumps(told), flush=True)
        time.sleep(1.0)  # the other worker still needs this one's last message
        os._exit(0)

    def now(self) -> tuple[float, int]:
        """Seconds, and bytes sent by the interface so far."""
        return time.perf_counter(), int((self._folder / "tx_bytes").read_text())


def under_torchrun() -> None:
    """A few steps of DistributedDataParallel in a process group that torchrun describes."""
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):
        inputs = torch.randn(BATCH, WIDTHS[0])
        loss = nn.functional.cross_entropy(model(inputs), torch.zeros(BATCH, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(json.dumps({"loss": loss.item()}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=json.loads)
    parser.add_argument("--torchrun", action="store_true")
    arguments = parser.parse_args()
    if arguments.torchrun:
        under_torchrun()
    else:
        run(arguments.spec)
