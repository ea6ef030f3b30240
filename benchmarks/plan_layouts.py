"""Which layout of a transformer would be fastest: learn the priors of `advisor plan`, and test its choices.

`python -m benchmarks.plan_layouts FOLDER` reads vtrain.csv and bigscience.csv of a folder, writes
advisor/planning/layouts/priors.json and benchmarks/results/plan_layouts.json. A choice is one model at one
count with one global batch; its regret is how much longer the layout with the least predicted step took than
the fastest that was measured. Choices of fewer than three layouts are left out.

- one model left out: each of eight models on one node, predicted by priors learnt from the others
- to 8 ranks: a model's layouts on 2 ranks are given (priors of the others), those on 8 are asked
- to many nodes: priors of one node alone, layouts of four larger models on 64 to 512 ranks
- to many nodes, a small model given: those layouts again, each of eight small models on one node given, with
  priors of all models but the one asked, and the small model's rows counted as its errors go together
- another program: priors of vTrain, a 181B model of another project on 384 ranks; first nothing of it is
  given, then three layouts drawn 20 times
"""

import csv
import json
import math
import random
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.planning.layouts.layout import Layout, Shape, Timed
from advisor.planning.layouts.priors import STORED
from advisor.planning.layouts.step_model import NAMES, StepModel
from advisor.planning.physics import Prior

RESULTS = Path(__file__).parent / "results" / "plan_layouts.json"
# Where the learning starts: orders of magnitude of an A100 (data sheet) and of NCCL.
WEAK: dict[str, tuple[float, float]] = {
    "flops": (math.log(1.2e14), 0.7),
    "small": (math.log(3e5), 1.5),
    "elements": (math.log(1e10), 1.0),
    "scores": (math.log(5e10), 1.0),
    "launch": (math.log(2e-3), 1.0),
    "tensor": (math.log(1.5e11), 1.0),
    "tensor_latency": (math.log(3e-5), 1.5),
    "tensor_across": (math.log(2e10), 0.7),
    "replicas": (math.log(1e11), 1.0),
    "replicas_across": (math.log(5e10), 1.0),
    "stages": (math.log(1e10), 1.5),
    "update": (math.log(4e10), 1.0),
    "head": (0.0, 0.5),
}
LEARNT_SD = 0.4  # of a rate learnt here, on another machine: a factor of 1.5 either way
SHAPE_181B = Shape(layers=72, hidden=14_336, sequence=2048, heads=112, vocabulary=250_880)
DRAWS, GIVEN = 20, 3

Priors = Mapping[str, Prior]


def read_vtrain(folder: Path) -> list[Timed]:
    """Every layout of vtrain.csv."""
    found = []
    for row in _rows(folder / "vtrain.csv"):
        hidden, layers, heads = map(int, _numbers(r"GPT h(\d+) L(\d+) a(\d+)", row["model"]))
        tensor, _, stages = map(int, _numbers(r"tp(\d+) dp(\d+) pp(\d+)", row["strategy"]))
        shape = Shape(layers, hidden, int(row["seq"]), heads)
        layout = Layout(
            shape, int(row["n_gpus"]), int(row["nodes"]), tensor, stages,
            int(row["local_batch"]), float(row["global_batch"]),
        )  # fmt: skip
        found.append(Timed(layout, 1e3 * float(row["step_s"])))
    return found


def read_bigscience(folder: Path) -> list[Timed]:
    """The layouts of one model of bigscience.csv, whose shape follows from its number of parameters."""
    found = []
    for row in _rows(folder / "bigscience.csv"):
        if "GBS Variations" in row["series"] and row["model"] == "181B":
            _, tensor, stages = map(int, _numbers(r"DP(\d+) TP(\d+) PP(\d+)", row["strategy"]))
            layout = Layout(
                SHAPE_181B, int(row["n_gpus"]), int(row["nodes"]), tensor, stages,
                int(row["local_batch"]), float(row["global_batch"]),
            )  # fmt: skip
            found.append(Timed(layout, 1e3 * float(row["step_s"])))
    return found


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _numbers(pattern: str, text: str) -> tuple[str, ...]:
    found = re.match(pattern, text)
    if found is None:
        raise ValueError(f"{text} is no {pattern}")
    return found.groups()


def learn(measured: Sequence[Timed]) -> dict[str, Prior]:
    """Priors from these."""
    weak = {name: Prior(*pair) for name, pair in WEAK.items()}
    fitted = StepModel(measured, weak).fitted()
    return {name: Prior(float(value), LEARNT_SD) for name, value in zip(NAMES, fitted, strict=True)}


def errors_together(measured: Sequence[Timed]) -> float:
    """Correlation of errors among layouts of models of one width, by priors of the other widths.

    The intraclass correlation of a one-way analysis of variance (Shrout, Fleiss, 1979, case 1).
    """
    widths = sorted({one.layout.shape.hidden for one in measured})
    groups = []
    for width in widths:
        own = [one for one in measured if one.layout.shape.hidden == width]
        others = StepModel([], learn([one for one in measured if one.layout.shape.hidden != width]))
        steps = others.steps_ms([one.layout for one in own])
        groups.append(np.log([one.step_ms / step for one, step in zip(own, steps, strict=True)]))
    rows = float(np.mean([len(group) for group in groups]))
    middle = np.concatenate(groups).mean()
    between = sum(len(group) * (group.mean() - middle) ** 2 for group in groups) / (len(groups) - 1)
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (rows - 1) / len(groups)
    return float(np.clip((between - within) / (between + (rows - 1) * within), 0, 1))


class Tally:
    """Choices and errors of one kind of task."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.regrets: list[float] = []
        self.by_chance: list[float] = []

    def ask(self, model: StepModel, asked: Sequence[Timed]) -> None:
        """Predict, choose in each group, and note what that costs; steps are compared by the sample."""
        steps = model.steps_ms([one.layout for one in asked])
        self.errors += [math.log(one.step_ms / step) for one, step in zip(asked, steps, strict=True)]
        groups: dict[object, list[tuple[float, float]]] = defaultdict(list)
        for one, step in zip(asked, steps, strict=True):
            batch = one.layout.global_batch
            key = (one.layout.shape, one.layout.ranks, round(math.log2(batch)))
            groups[key].append((step / batch, one.step_ms / batch))
        for pairs in groups.values():
            if len(pairs) >= 3:
                best = min(measured for _, measured in pairs)
                self.regrets.append(min(pairs)[1] / best - 1)
                self.by_chance.append(float(np.mean([measured for _, measured in pairs])) / best - 1)

    @property
    def row(self) -> dict[str, float | int]:
        """Figures of this kind."""
        errors = np.array(self.errors)
        return {
            "layouts": len(errors),
            "choices": len(self.regrets),
            "regret": float(np.mean(self.regrets)),
            "largest_regret": max(self.regrets),
            "mean_layout": float(np.mean(self.by_chance)),
            "mean_error": float(np.mean(np.abs(np.expm1(-errors)))),
            "median_error": float(np.median(np.abs(np.expm1(-errors)))),
        }


def back_test(vtrain: Sequence[Timed], other: Sequence[Timed]) -> dict[str, Tally]:
    """All tasks."""
    single = [one for one in vtrain if one.layout.nodes == 1]
    many = [one for one in vtrain if one.layout.nodes > 1]
    together = errors_together(single)
    tallies: dict[str, Tally] = defaultdict(Tally)
    for shape in sorted({one.layout.shape for one in single}, key=str):
        own = [one for one in single if one.layout.shape == shape]
        priors = learn([one for one in single if one.layout.shape != shape])
        tallies["one model left out"].ask(StepModel([], priors), own)
        given = [one for one in own if one.layout.ranks == 2]
        asked = [one for one in own if one.layout.ranks == 8]
        tallies["to 8 ranks"].ask(StepModel(given, priors, together), asked)
    tallies["to many nodes"].ask(StepModel([], learn(single)), many)
    for large in sorted({one.layout.shape for one in many}, key=str):
        asked = [one for one in many if one.layout.shape == large]
        priors = learn([one for one in vtrain if one.layout.shape != large])
        for small in sorted({one.layout.shape for one in single}, key=str):
            given = [one for one in single if one.layout.shape == small]
            tallies["to many nodes, a small model given"].ask(StepModel(given, priors, together), asked)
    priors = learn(vtrain)
    tallies["another program"].ask(StepModel([], priors), other)
    draw = random.Random(0)
    for _ in range(DRAWS):
        given = draw.sample(list(other), GIVEN)
        asked = [one for one in other if one not in given]
        tallies["another program, three layouts given"].ask(StepModel(given, priors, together), asked)
    return dict(tallies)


def stored(tallies: Mapping[str, Tally], rates: Priors, together: float) -> dict[str, Any]:
    """What the package takes along."""
    kinds = {
        "one_node": ("to 8 ranks",),
        "more_nodes": ("to many nodes, a small model given", "another program, three layouts given"),
    }
    off, record = {}, {}
    for kind, names in kinds.items():
        errors = [error for name in names for error in tallies[name].errors]
        off[kind] = [float(value) for value in np.quantile(errors, (0.05, 0.95))]
        row = tallies[names[0]].row
        record[kind] = {key: row[key] for key in ("choices", "regret", "largest_regret", "mean_error")}
    return {
        "rates": {name: [p.mean, p.sd] for name, p in rates.items()},
        "together": together,
        "off": off,
        "record": record,
    }


def main() -> None:
    """Learn, test, print and write both files."""
    folder = Path(sys.argv[1])
    vtrain, other = read_vtrain(folder), read_bigscience(folder)
    tallies = back_test(vtrain, other)
    rows = {name: tally.row for name, tally in tallies.items()}
    together = errors_together([one for one in vtrain if one.layout.nodes == 1])
    kept = stored(tallies, learn(vtrain), together)
    rounded = json.loads(json.dumps(kept), parse_float=lambda text: round(float(text), 5))
    STORED.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for name, row in rows.items():
        print(
            f"{name}: {row['choices']} choices of {row['layouts']} layouts, regret {row['regret']:.1%} "
            f"(largest {row['largest_regret']:.1%}; the mean layout {row['mean_layout']:.1%}), error "
            f"{row['mean_error']:.1%} (median {row['median_error']:.1%})"
        )


if __name__ == "__main__":
    main()
