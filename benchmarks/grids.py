"""What is tried on each workload, and a measured grid as it is kept: read and written as JSON."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from advisor.base.atomic_file import write_atomically
from advisor.profiles.facts.profile import Profile
from advisor.tuners.comparing.measure import median
from advisor.tuners.knob import AnyKnob, Config, Refused, Value
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import NotTried, Space
from advisor.tuners.supervision.failures import Cause

ROOT = Path(__file__).parents[1]
WORKLOADS = Path(__file__).parent / "workloads"
RESULTS = Path(__file__).parent / "results" / "oracle"
MOST_CELLS = 36

Choices = dict[str, list[Value]]


@dataclass(frozen=True)
class Table:
    """Knobs and values for one workload; ``budget`` is what its tuning needs at least, as on a command line.

    Where ``batch_size`` stands, speed counts per sample.
    """

    knobs: Choices
    budget: str = ""


AMP: list[Value] = ["off", "bf16"]
LAYOUT: list[Value] = ["off", "on"]
FORMS: list[Value] = ["default", "fused"]
PRECISION: list[Value] = ["highest", "medium"]
COMPILE: list[Value] = ["eager", "compile"]
THREADS: list[Value] = [1, 2]
WITH_COMPILATION = "8m"  # a confirmation starts more than a dozen processes, each of which compiles

TABLES: dict[str, Table] = {
    "resnet": Table(
        {"amp": AMP, "channels_last": LAYOUT, "num_threads": THREADS, "optimizer_implementation": FORMS}
    ),
    "lenet": Table({"amp": AMP, "batch_size": [32, 128, 512], "optimizer_implementation": FORMS}),
    "mlp": Table(
        {
            "amp": AMP,
            "batch_size": [32, 128, 512],
            "execution": COMPILE,
            "optimizer_implementation": FORMS,
        },
        WITH_COMPILATION,
    ),
    "bert": Table(
        {
            "amp": AMP,
            "batch_size": [8, 32],
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "gpt2": Table(
        {
            "amp": AMP,
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
            "sdpa_backend": ["default", "math"],
        }
    ),
    "vit": Table(
        {
            "amp": AMP,
            "channels_last": LAYOUT,
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "lstm_lm": Table(
        {
            "amp": AMP,
            "batch_size": [16, 64],
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "unet": Table(
        {
            "amp": AMP,
            "channels_last": LAYOUT,
            "execution": COMPILE,
            "optimizer_implementation": FORMS,
        },
        WITH_COMPILATION,
    ),
    "dlrm": Table(
        {
            "amp": AMP,
            "batch_size": [128, 512, 2048],
            "optimizer_implementation": ["default", "foreach", "fused"],
        }
    ),
    "cpu_heavy_dataset": Table({"num_threads": THREADS, "num_workers": [0, 1, 2], "prefetch_factor": [2, 4]}),
    "io_bound_dataset": Table(
        {"num_workers": [0, 2, 4, 8], "persistent_workers": ["off", "on"], "prefetch_factor": [2, 4]}
    ),
    "autoencoder": Table(
        {"amp": AMP, "channels_last": LAYOUT, "num_threads": THREADS, "optimizer_implementation": FORMS}
    ),
    "tcn": Table(
        {
            "amp": AMP,
            "channels_last": LAYOUT,
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "gru_tagger": Table(
        {
            "amp": AMP,
            "batch_size": [16, 64],
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "already_tuned": Table(
        {
            "matmul_precision": PRECISION,
            "optimizer_implementation": ["fused", "default"],
            "placebo": ["off", "on"],
        }
    ),
    # From here on: written, and measured for the first time, when the search was what it is now.
    "gan": Table(
        {"amp": AMP, "channels_last": LAYOUT, "num_threads": THREADS, "optimizer_implementation": FORMS}
    ),
    "seq2seq": Table(
        {
            "amp": AMP,
            "batch_size": [16, 64],
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "pointnet": Table({"num_threads": THREADS, "num_workers": [0, 1, 2], "optimizer_implementation": FORMS}),
    "spectrograms": Table(
        {"channels_last": LAYOUT, "in_memory_cache": ["off", "memory"], "num_threads": THREADS}
    ),
    # And these when it had changed once more, after pairs, the final race and savers of memory.
    "mobile_net": Table(
        {"amp": AMP, "channels_last": LAYOUT, "num_threads": THREADS, "optimizer_implementation": FORMS}
    ),
    "distillation": Table(
        {
            "amp": AMP,
            "matmul_precision": PRECISION,
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "graph_net": Table(
        {
            "amp": AMP,
            "batch_size": [16, 64],
            "num_threads": THREADS,
            "optimizer_implementation": FORMS,
        }
    ),
    "log_lines": Table({"num_threads": THREADS, "num_workers": [0, 1, 2], "prefetch_factor": [2, 4]}),
}


@dataclass(frozen=True)
class Cell:
    """One configuration against the default.

    Attributes:
        instances: Log ratios of the default's time over its own per unit of work, by process or pair.
        seconds: What each instance took, starts included.
        step_s: Mean seconds of a step.
        forbidden: Why a search never proposes it; measured all the same.
    """

    config: dict[str, Value]
    how: str
    state: Literal["measured", "refused", "failed"] = "measured"
    instances: list[list[float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    step_s: float = 0.0
    cause: Cause | None = None
    reason: str = ""
    forbidden: str | None = None

    @property
    def log_ratio(self) -> float:
        """Mean over instances of the median of each, as ``measure.between`` has it; 0 for the default."""
        medians = [median(ratios) for ratios in self.instances]
        return sum(medians) / len(medians) if medians else 0.0


@dataclass
class Grid:
    """All cells of one workload, and what a search over them knows of the program.

    Attributes:
        present: The default's value of each knob of the grid.
        own: The program's own setting of every knob.
        knobs: Values by knob, the default's first.
        left_out: Knobs and values that refuse this program, with the reason.
        priorities: What the findings of a profile say, as ``Search`` takes it.
        step_s, slot_steps, sigma: Of the default: seconds of a step, steps of a slot, spread of a quad.
        start_s: To start a process and warm it up.
        confirmed: The best cells once more, on fresh processes; these figures count.
        tuned: What ``advisor tune`` recommended on the same knobs, and how it compares.
    """

    workload: str
    conditions: dict[str, Any]
    profile: Profile
    present: dict[str, Value]
    own: dict[str, Value]
    knobs: Choices
    left_out: list[NotTried] = field(default_factory=list)
    priorities: dict[str, float] = field(default_factory=dict)
    step_s: float = 0.1
    slot_steps: int = 5
    sigma: float = 0.02
    start_s: float = 0.0
    cells: list[Cell] = field(default_factory=list)
    confirmed: list[Cell] = field(default_factory=list)
    tuned: dict[str, Any] | None = None

    def space(self) -> Space:
        """The grid as a space, without what a search forbids itself."""
        choices = {name: list(values) for name, values in self.knobs.items()}
        present, own = Configuration(self.present), Configuration(self.own)
        return Space(present, own, choices, [], self.profile, frozenset(self.knobs))

    def configs(self) -> list[Configuration]:
        """Every configuration that means something of its own, the default first."""
        space = self.space()
        combinations = itertools.product(*self.knobs.values())
        complete = (space.complete(dict(zip(self.knobs, of, strict=True))) for of in combinations)
        return list(dict.fromkeys(complete))

    def by_config(self) -> dict[Configuration, Cell]:
        """The cells measured so far, and the default, which needs no measuring."""
        space = self.space()
        default = Cell(dict(self.present), "", step_s=self.step_s)
        return {space.complete(cell.config): cell for cell in (default, *self.cells)}

    def missing(self) -> list[Configuration]:
        """Configurations without a cell."""
        known = self.by_config()
        return [config for config in self.configs() if config not in known]

    def speeds(self) -> dict[Configuration, float]:
        """Log ratio over the default: confirmed where that was done; what failed is left out.

        What was not confirmed cannot count as better than the best that was.
        """
        space = self.space()
        again = {space.complete(cell.config): cell for cell in self.confirmed}
        sure = {config: cell.log_ratio for config, cell in again.items() if cell.state == "measured"}
        sure[space.complete(self.present)] = 0.0
        top = max(sure.values()) if again else math.inf
        lost = again.keys() - sure.keys()
        return {
            config: sure.get(config, min(cell.log_ratio, top))
            for config, cell in self.by_config().items()
            if cell.state == "measured" and config not in lost
        }

    def best(self) -> tuple[dict[str, Value], float]:
        """The best cell and its log ratio over the default; the default itself where nothing is faster."""
        space, speeds = self.space(), self.speeds()
        sure = {
            space.complete(config) for config in (self.present, *(cell.config for cell in self.confirmed))
        }
        config = max(speeds, key=lambda each: (speeds[each], each in sure))
        return self.by_config()[config].config, speeds[config]

    def write(self, folder: Path) -> None:
        """Write ``<workload>.json``, without the folder of this checkout in it."""
        folder.mkdir(parents=True, exist_ok=True)
        text = GRID.dump_json(self, indent=1).decode()
        write_atomically(folder / f"{self.workload}.json", text.replace(f"{ROOT}/", "") + "\n")

    def changes(self, config: Config) -> str:
        """What differs from the default, for a table."""
        different = [f"{name}={config[name]}" for name in self.present if config[name] != self.present[name]]
        return ", ".join(different) or "the default"


GRID = TypeAdapter(Grid)


def read_grid(folder: Path, workload: str) -> Grid | None:
    """A grid written before; ``None`` where there is none."""
    file = folder / f"{workload}.json"
    return GRID.validate_json(file.read_bytes()) if file.exists() else None


def applicable(
    table: Table, knobs: Mapping[str, AnyKnob], profile: Profile
) -> tuple[Choices, list[NotTried]]:
    """The values of a table that this program does not refuse, the present one first; and the others."""
    choices: Choices = {}
    left_out: list[NotTried] = []
    for name, values in table.knobs.items():
        try:
            present: Value = knobs[name].present(profile)
        except Refused as reason:
            left_out.append(NotTried(name, None, str(reason)))
            continue
        kept = [present]
        for value in values:
            if value == present:
                continue
            try:
                knobs[name].check(value, profile)
            except Refused as reason:
                left_out.append(NotTried(name, value, str(reason)))
            else:
                kept.append(value)
        if len(kept) > 1:
            choices[name] = kept
    return choices, left_out


def reduced(profile: Profile) -> Profile:
    """What constraints and the order of a search read of a profile; the rest is bulk."""
    return Profile(
        machine=profile.machine,
        target_kind=profile.target_kind,
        device=profile.device,
        phases=profile.phases,
        loader=profile.loader,
        roots=profile.roots,
        optimizers=profile.optimizers,
        run=profile.run,
        memory=profile.memory,
    )
