"""What a trial is told, and what it answers: the contents of ``trial.json`` and ``outcome.json``."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from advisor.base.fault_points import hit
from advisor.tuners.place import Place

MAX_OUTCOME = 16 * 2**20  # bytes; more than that is not read


@dataclass(frozen=True)
class Target:
    """What is run. ``name`` is a file for scripts and workloads, a module for ``-m``.

    ``payload`` is a file with objects shipped by value (kind ``objects``).
    """

    kind: str  # script | module | workload | objects
    name: str
    args: tuple[str, ...] = ()
    cwd: str = "."
    payload: str | None = None


@dataclass(frozen=True)
class TrialSpec:
    """One configuration to run in one process.

    ``present`` is the program's own setting of every knob, ``config`` what this trial sets.
    ``place`` is this process's among those that train together, alone by default.
    ``nudge``, where not 0, moves the initial weights by a few roundings, by this seed (``nudge.py``).
    ``learning`` trials run a fixed number of first steps on fixed batches and record losses and
    gradient norms; no times are taken from them.
    """

    number: int
    target: Target
    folder: str
    config: dict[str, int | str] = field(default_factory=dict)
    present: dict[str, int | str] = field(default_factory=dict)
    training_dataset: int | None = None
    seed: int = 0
    seed_offset: int = 0
    nudge: int = 0
    device: str = "auto"
    learning_steps: int = 0
    isolate: bool = False
    place: Place = field(default_factory=Place)

    def write(self, path: Path) -> None:
        """Write ``trial.json``."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "TrialSpec":
        """Read ``trial.json``."""
        data: dict[str, Any] = json.loads(path.read_text())
        target, place = data.pop("target"), data.pop("place")
        return cls(
            target=Target(**{**target, "args": tuple(target["args"])}),
            place=Place(**{**place, "cpus": tuple(place["cpus"])}),
            **data,
        )


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a file that a reader sees whole or not at all, also after a crash."""
    temporary, name = path.with_name(f".{path.name}.{os.getpid()}"), path.stem
    hit(f"{name}.write.before")
    with temporary.open("w") as stream:
        json.dump(data, stream)
        stream.flush()
        hit(f"{name}.fsync.before")
        os.fsync(stream.fileno())
        hit(f"{name}.fsync.after")
    temporary.rename(path)
    hit(f"{name}.rename.after")
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_outcome(path: Path) -> dict[str, Any] | None:
    """The outcome a trial left, or ``None`` when there is none that can be read."""
    try:
        with path.open("rb") as stream:
            data = json.loads(stream.read(MAX_OUTCOME))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and "state" in data else None
