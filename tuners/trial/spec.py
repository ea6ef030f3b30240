"""What a trial is told: the content of ``trial.json``."""

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from advisor.base.fault_points import hit
from advisor.base.unit import Unit
from advisor.tuners.place import Place
from advisor.tuners.supervision.isolation import Coverage, Isolation


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
class Guard:
    """Which files of the user's a trial may not change: those that nothing isolates.

    Attributes:
        coverage: What is isolated.
        ours: Folders of advisor, which may be changed.
        created: A file that gets a line for each path that the trial makes where nothing isolates it.
    """

    coverage: Coverage
    ours: tuple[str, ...]
    created: str

    def protects(self, path: Path) -> bool:
        """Whether what is written at a path is isolated."""
        return self.coverage.covers(path.resolve())

    def admits(self, path: Path, *, created: bool) -> bool:
        """Whether the trial may write there: it is isolated, new, or a file that the trial made itself.

        What it makes is taken note of.
        """
        if self.protects(path):
            return True
        if not created:
            return path in self._made()
        with open(self.created, "a") as lines:  # in a folder of ours, which nobody listens to
            lines.write(json.dumps(str(path)) + "\n")
        return True

    def _made(self) -> list[Path]:
        file = Path(self.created)
        return [Path(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []

    def clean(self) -> None:
        """Remove what the trial made, so that the next one starts from the same files."""
        for path in reversed(self._made()):
            with contextlib.suppress(OSError):  # it is gone, or holds what somebody else made
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@dataclass(frozen=True)
class TrialSpec:
    """One configuration to run in one process.

    ``present`` is the program's own setting of every knob, ``config`` what this trial sets.
    ``place`` is this process's among those that train together, alone by default.
    ``host`` names the machine of a rank that is not the tuner's; ``folder`` is one of that machine.
    ``isolation`` says what keeps its writes apart from everyone's files, ``guard`` which of those it may not
    change, so that it ends before it does.
    ``nudge``, where not 0, moves the initial weights by a few roundings, by this seed (``nudge.py``).
    ``norms`` is how many gradient norms are kept beside the first losses, which all trials keep.
    ``waits`` has it wait before its first iterator of a loader is made, until it is told to go on.
    ``unit`` is what the run is counted in; of requests, ``between`` says that the time between them counts.
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
    norms: int = 0
    waits: bool = False
    device: str = "auto"
    learning_steps: int = 0
    isolation: Isolation | None = None
    guard: Guard | None = None
    place: Place = field(default_factory=Place)
    host: str = ""
    unit: Unit = Unit.STEP
    between: bool = False

    def write(self, path: Path) -> None:
        """Write ``trial.json``."""
        write_json(path, self)

    @classmethod
    def read(cls, path: Path) -> "TrialSpec":
        """Read ``trial.json``."""
        return cls.of(path.read_text())

    @property
    def text(self) -> str:
        """What ``trial.json`` holds."""
        return json.dumps(msgspec.to_builtins(self))

    @classmethod
    def of(cls, text: str) -> "TrialSpec":
        """From what ``trial.json`` holds."""
        return msgspec.convert(json.loads(text), cls)


def write_json(path: Path, data: Any) -> None:
    """Write a struct or dataclass as a file that a reader sees whole or not at all, also after a crash."""
    temporary, name = path.with_name(f".{path.name}.{os.getpid()}"), path.stem
    hit(f"{name}.write.before")
    with temporary.open("w") as stream:
        json.dump(msgspec.to_builtins(data), stream)
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
