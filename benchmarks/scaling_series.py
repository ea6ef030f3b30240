"""Published scaling measurements as series: one program, one batch per rank, several counts of ranks."""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

OTHER_COLUMNS = ("mlperf", "allreduce_bandwidth")
# Rows of one series differ in the layout of the model, or in what is offloaded, not in the count alone.
MIXED = ("bigscience",)
BYTES = {"fp32": 4, "amp": 2, "fp16": 2, "bf16": 2, "amp_bf16": 2}  # of one gradient on the wire
NETWORK_GB_PER_S = (("4x100Gb", 50.0), ("100Gb", 12.5), ("EC2 p2.16xlarge", 2.5))  # in notes, a node


@dataclass(frozen=True)
class Row:
    """One measured count. ``time`` is the step in seconds, or ranks over throughput where no step is told."""

    ranks: int
    nodes: int
    time: float


@dataclass(frozen=True)
class Series:
    """The counts of one program, in rising order."""

    source: str
    name: str
    rows: tuple[Row, ...]
    params: float | None  # number of parameters
    gradient_bytes: float | None  # shared in each step
    node_bytes_per_s: float | None  # of a node's network, where it is named


def read(folder: Path) -> list[Series]:
    """Every series with at least two counts.

    Args:
        folder: One CSV file per source, with the columns that its README names.
    """
    found = []
    for file in sorted(folder.glob("*.csv")):
        if file.stem not in (*OTHER_COLUMNS, *MIXED):
            found += _of_source(file)
    return found


def _of_source(file: Path) -> list[Series]:
    groups: dict[tuple[object, ...], list[dict[str, str]]] = defaultdict(list)
    with file.open(newline="") as opened:
        for row in csv.DictReader(opened):
            ranks = int(row["n_gpus"])
            per_rank = round(float(row["global_batch"]) / ranks, 4) if row["global_batch"] else None
            strategy = row["strategy"] if not row["strategy"].startswith("tp") else ""
            groups[row["series"], row["local_batch"], per_rank, strategy].append(row)
    series = []
    for (name, *_), rows in groups.items():
        best: dict[tuple[int, int], float] = {}
        for row in rows:
            time = float(row["step_s"] or 0) or int(row["n_gpus"]) / float(row["throughput"])
            best[int(row["n_gpus"]), int(row["nodes"])] = time
        kept = sorted(best.items())
        if "405b" in str(name):  # their batch per rank changes below 128
            kept = [(place, time) for place, time in kept if place[0] >= 128]
        if len({place[0] for place, _ in kept}) < 2:
            continue
        first = rows[0]
        params = float(first["params_m"]) * 1e6 if first["params_m"] else None
        size = params * BYTES[first["precision"]] if params and first["precision"] in BYTES else None
        speed = next((gb * 1e9 for words, gb in NETWORK_GB_PER_S if words in first["note"]), None)
        points = tuple(Row(ranks, nodes, time) for (ranks, nodes), time in kept)
        series.append(Series(file.stem, str(name), points, params, size, speed))
    return series
