"""What stored results say about memory: categories of one process, peaks of ranks, and how much there is."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.base.errors import UsageError, clean
from advisor.planning.memory import Memory
from advisor.planning.places import Measured
from advisor.planning.shares import Categories, Division, Layers, Server, Stages, whole_share
from advisor.profiles.facts.data_sheets import DATA_SHEETS, GIB
from advisor.result.document import ProfileData, ResultData


def memory_of(
    results: Sequence[ResultData | ProfileData], found: Mapping[str, Measured], gpu: str | None = None
) -> Memory | None:
    """Memory as the results measured it; ``None`` where none of them has the categories of a profile.

    The peak is that of the device where there is one; without one the ranks share the memory of the host.

    Args:
        results: Of one program.
        found: Its strategies, as ``measured_strategies`` gives them.
        gpu: Name of another GPU, whose memory counts in place of the machine's.

    Raises:
        UsageError: No data sheet has that name.
    """
    capacity = None if gpu is None else sheet_bytes(gpu)
    for result in results:
        if not isinstance(result, ResultData):
            continue
        sizes = result.profile.memory_bytes
        on_device = "device_peak" in sizes
        peak = sizes.get("device_peak") or result.baseline.steps_peak_bytes or sizes.get("host_peak")
        alone = next((p.place for one in found.values() for p in one.points if p.place.ranks == 1), None)
        if not peak or not sizes.get("parameter") or alone is None:
            continue
        peaks = {name: one.peaks for name, one in found.items()}
        categories = Categories(
            parameters=sizes["parameter"],
            gradients=sizes.get("gradient", 0),
            optimizer=sizes.get("optimizer", 0),
            activations=sizes.get("activation", 0),
            peak=peak,
            local_batch=alone.local_batch,
            reserved=sizes.get("device_reserved"),
            saved=not on_device,
        )
        shared = not on_device and gpu is None
        capacity = capacity or _machine_bytes(result.machine, on_device)
        return Memory(categories, peaks, capacity, shared, _divisions(results, categories.parameters))
    return None


def _divisions(results: Sequence[ResultData | ProfileData], parameters: float) -> dict[str, Division]:
    """What trials tell of how a strategy divided the model."""
    found: dict[str, Division] = {}
    for trial in (trial for result in results if isinstance(result, ResultData) for trial in result.trials):
        strategy = str(trial.config.get("strategy"))
        if trial.ranks is None or trial.ranks.count < 2:
            continue
        report, ranks = trial.ranks.report, trial.ranks.count
        if strategy == "pipeline" and isinstance(report.get("micro_batches"), int):
            largest = report.get("largest_parameter_bytes", 0)
            found[strategy] = Stages(
                str(report.get("schedule", "gpipe")),
                max(1, report["micro_batches"]),
                float(largest) if isinstance(largest, int | float) else 0.0,
            )
        held = report.get("parameter_bytes")
        if strategy == "tensor_parallel" and isinstance(held, int | float):
            found[strategy] = Layers(whole_share(held / parameters, ranks))
        servers = trial.config.get("servers", 1)
        if strategy == "parameter_server" and isinstance(servers, int) and servers > 0:
            found["server"] = Server(servers)
    return found


def sheet_bytes(name: str) -> float:
    """Memory of a GPU by its name.

    Raises:
        UsageError: No data sheet has it.
    """
    named = [each for each in DATA_SHEETS if re.search(each.pattern, name, re.IGNORECASE)]
    size = re.search(r"(\d+) ?Gi?B", name, re.IGNORECASE)
    if size is not None:
        named = [each for each in named if each.memory_gib == int(size[1])]
    if not named:
        raise UsageError(f"no data sheet of {clean(name, 60)}", hint="a name as in `--gpu 'A100 80GB'`")
    return float(named[0].memory_gib * GIB)


def _machine_bytes(machine: Mapping[str, Any], on_device: bool) -> float | None:
    gpus = machine.get("gpus") or []
    size = gpus[0].get("memory_bytes") if on_device and gpus else None
    if not on_device:
        size = machine.get("memory_bytes")
    return float(size) if isinstance(size, int | float) and size > 0 else None
