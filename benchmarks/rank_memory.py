"""Is the memory of a rank that ``advisor plan`` predicts what two real ranks take? On a CPU, with gloo.

    python -m benchmarks.rank_memory [--resume]

Two programs of 25 million parameters (100 MB each of parameters and gradients): a transformer with Adam (200
MB of state) and small activations, and linear layers with momentum (100 MB) and activations larger than the
parameters. Each trains in one process, where its categories are measured: bytes of parameters, gradients,
state and what forward keeps for backward, and the peak of resident memory during steps (``VmHWM``, set back
before them). From these alone ``advisor.planning.memory`` predicts the peak of a rank of two under ddp, zero,
fsdp (all as one unit), parameter servers (a worker and the one server), pipelines and tensor parallelism,
which are then run and measured in the same way. glibc is told to give memory back at once
(``MALLOC_MMAP_THRESHOLD_``), or resident memory would hold what is long free. Every process has loaded the
same parts of torch, so that what these take is the same. What was measured is written after each run;
``--resume`` goes on from there.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel
from torch import nn
from torch.utils.data import TensorDataset

from advisor.planning.memory import Memory
from advisor.planning.places import Place as Spot
from advisor.planning.shares import SHARES, Categories, Layers, Stages, whole_share
from advisor.tuners.place import HERE, Place
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategy import Strategy
from advisor.tuners.trial.loop import train
from advisor.workloads.workload import Workload
from benchmarks.conditions import conditions

RESULTS = Path(__file__).parent / "results" / "rank_memory.json"
RANKS, STEPS, WARMUP = 2, 2, 2
LIMIT_S = 300.0
WIDTH, LAYERS, LENGTH = 512, 8, 16
SERVER = "server"
STRATEGIES_RUN: dict[str, dict[str, int | str]] = {
    "ddp": {"strategy": "ddp"},
    "zero": {"strategy": "zero"},
    "fsdp": {"strategy": "fsdp"},
    "parameter_server": {"strategy": "parameter_server"},
    SERVER: {"strategy": "parameter_server"},
    "pipeline": {"strategy": "pipeline", "schedule": "gpipe", "pipeline_chunks": 4},
    "pipeline, 1f1b": {"strategy": "pipeline", "schedule": "1f1b", "pipeline_chunks": 4},
    "tensor_parallel": {"strategy": "tensor_parallel"},
}
"""Configurations by what is measured of them."""
MB = 1e6


class Transformer(nn.Module):
    """Encoder layers between two linear ones."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The mean over places, as classes."""
        scores: torch.Tensor = self.out(self.layers(inputs).mean(1))
        return scores


class Perceptron(nn.Sequential):
    """Linear layers, each normalised, between two of other widths."""

    def __init__(self) -> None:
        inner = (nn.Linear(2048, 2048), nn.LayerNorm(2048), nn.GELU())
        layers = [copy.deepcopy(each) for _ in range(6) for each in inner]
        super().__init__(nn.Linear(64, 2048), *layers, nn.Linear(2048, 10))


@dataclass(frozen=True)
class Program:
    """A program of the benchmark; ``batch`` samples of one rank."""

    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    shape: tuple[int, ...]
    batch: int

    def workload(self) -> Workload:
        """Random data."""
        inputs, targets = torch.randn(8 * self.batch, *self.shape), torch.randint(0, 10, (8 * self.batch,))
        return Workload(
            model=self.model,
            dataset=lambda: TensorDataset(inputs, targets),
            loss=nn.functional.cross_entropy,
            optimizer=self.optimizer,
            batch_size=self.batch,
        )


PROGRAMS = {
    "transformer": Program(Transformer, lambda p: torch.optim.Adam(p, lr=1e-3), (LENGTH, WIDTH), 8),
    "perceptron": Program(Perceptron, lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), (64,), 1024),
}


def run(spec: dict[str, Any]) -> None:
    """Train as one process or as one of two; print the peak of the last steps, and the categories."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    program = PROGRAMS[spec["program"]]
    workers = spec["workers"]
    strategy = Strategy()
    done = Path(spec["folder"], "done")
    if workers > 1:
        config = STRATEGIES_RUN[spec["strategy"]]
        servers = int(config["strategy"] == "parameter_server")
        HERE.place = Place(
            spec["rank"], workers, servers, f"{spec['folder']}/rendezvous", timeout_s=150.0, learning=False
        )
        HERE.config = {**config, "ranks": workers}
        HERE.join()
        strategy = STRATEGIES[str(config["strategy"])]
        if HERE.place.serves:
            threading.Thread(target=_tell_when, args=(done,), daemon=True).start()
            strategy.serve(program.workload())
    updated, steps = strategy.updated, 0

    def count(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        nonlocal steps
        updated(model, optimizer)
        steps += 1
        if steps == WARMUP:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        if steps < WARMUP + STEPS:
            return
        sizes = [each.nbytes for each in map(_own, model.parameters())]
        state = sum(
            value.nbytes
            for values in optimizer.state.values()
            for value in values.values()
            if isinstance(value, torch.Tensor)
        )
        told = {
            "peak": _peak(), "parameters": sum(sizes), "largest": max(sizes, default=0), "optimizer": state
        }  # fmt: skip
        if workers == 1:
            told["activations"] = _kept(model, torch.randn(program.batch, *program.shape))
        print(json.dumps(told), flush=True)
        if workers > 1:
            torch.distributed.barrier(HERE.among_workers)  # the other still needs this one's messages
            done.touch()
            time.sleep(2.0)
        os._exit(0)

    strategy.updated = count  # type: ignore[method-assign]
    train(program.workload(), "cpu", None, strategy)


def _tell_when(done: Path) -> None:
    """A server's peak, once workers have ended their steps."""
    while not done.exists():
        time.sleep(0.1)
    print(json.dumps({"peak": _peak()}), flush=True)
    os._exit(0)


def _own(value: torch.Tensor) -> torch.Tensor:
    """What lies here of a divided parameter."""
    local: torch.Tensor = value.to_local() if hasattr(value, "to_local") else value
    return local


def _kept(model: nn.Module, inputs: torch.Tensor) -> int:
    """Bytes that forward keeps for backward beside parameters, each storage once."""
    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    sizes: dict[int, int] = {}

    def note(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        outputs = model(inputs)
    del outputs
    return sum(sizes.values())


def _peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(program: str, strategy: str, workers: int) -> dict[str, int]:
    """What the rank with the highest peak told; of parameter servers the workers, or the server alone."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        servers = int(workers > 1 and STRATEGIES_RUN[strategy]["strategy"] == "parameter_server")
        for rank in range(workers + servers):
            spec = {
                "program": program,
                "rank": rank,
                "workers": workers,
                "strategy": strategy,
                "folder": folder,
            }
            environment = {
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "MALLOC_MMAP_THRESHOLD_": "262144",
                "MALLOC_ARENA_MAX": "1",
            }
            command = (sys.executable, "-m", "benchmarks.rank_memory", "--spec", json.dumps(spec))
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        try:
            told = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    rows: list[dict[str, int]] = [json.loads(each.splitlines()[-1]) for each in told]
    rows = rows[workers:] if strategy == SERVER else rows[:workers]
    return max(rows, key=lambda row: row["peak"])


def categories_of(alone: Mapping[str, float], batch: int) -> Categories:
    """Of one process with a batch, in the unit of its figures."""
    return Categories(
        parameters=alone["parameters"],
        gradients=alone["parameters"],
        optimizer=alone["optimizer"],
        activations=alone["activations"],
        peak=alone["peak"],
        local_batch=batch,
        saved=True,
    )


def main() -> None:
    """Measure, predict, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="keep the runs that the file has")
    options = parser.parse_args()
    if options.spec is not None:
        run(options.spec)
        return
    found = stored(options.out) if options.resume else {}
    for name in PROGRAMS:
        for rows in compared(name, found.get(name)):
            found[name] = rows
            written = json.dumps({"conditions": conditions(), "programs": found}, indent=1)
            options.out.write_text(written + "\n", encoding="utf-8")


def stored(path: Path) -> dict[str, Any]:
    """What a file holds by program; nothing where there is none."""
    if not path.exists():
        return {}
    programs: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["programs"]
    return programs


def predicted(
    name: str, alone: Mapping[str, float], strategy: str, held: float, largest: float = 0.0
) -> float:
    """The peak of one of two ranks in the unit of ``alone``.

    Args:
        name: Of the program.
        alone: What one process took.
        strategy: As it is named in ``STRATEGIES_RUN``.
        held: Parameters that one rank has, as a trial's report tells them.
        largest: The largest parameter of a rank, told there, too.
    """
    batch = PROGRAMS[name].batch
    kind = str(STRATEGIES_RUN[strategy]["strategy"])
    memory = Memory(categories_of(alone, batch), divisions={
        "pipeline": Stages(
            str(STRATEGIES_RUN[strategy].get("schedule", "gpipe")), largest=largest
        ),
        "tensor_parallel": Layers(whole_share(held / alone["parameters"], RANKS)),
    })  # fmt: skip
    own = batch if STRATEGIES[kind].splits_batch else batch / RANKS
    return memory.at(strategy if strategy in SHARES else kind, Spot(RANKS, 1, own)).peak_bytes


def compared(name: str, before: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """One process of a program, and each strategy as measured and as predicted from it; after each run.

    Args:
        name: Of the program.
        before: What an earlier call gave, whose runs are kept.
    """
    found = before or {"alone_mb": {}, "rows": []}
    alone = {kind: size * MB for kind, size in found["alone_mb"].items()} or measured(name, "single", 1)
    rows = list(found["rows"])
    for strategy in STRATEGIES_RUN:
        if any(row["strategy"] == strategy for row in rows):
            continue
        peaks = measured(name, strategy, RANKS)
        peak, held, largest = peaks["peak"], peaks.get("parameters", 0), peaks.get("largest", 0)
        said = predicted(name, alone, strategy, held, largest)
        rows.append(
            {
                "strategy": strategy,
                "measured_mb": peak / MB,
                "predicted_mb": said / MB,
                "held_parameters_mb": held / MB,
                "largest_parameter_mb": largest / MB,
                "error": said / peak - 1,
            }
        )
        told = f"measured {peak / MB:.0f} MB, predicted {said / MB:.0f} MB, {said / peak - 1:+.1%}"
        print(f"{name}, {strategy}: {told}", flush=True)
        yield {"alone_mb": {kind: size / MB for kind, size in alone.items()}, "rows": rows}


if __name__ == "__main__":
    main()
