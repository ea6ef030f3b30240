"""A small study in a folder of its own, run with a fault, resumed, and judged."""

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import fault_oracle
from injector import LOG, names
from supervised import MARK
from toy_study import ACKNOWLEDGED

from advisor.base.fault_points import VARIABLE

PROGRAM = Path(__file__).with_name("toy_study.py")
COMMAND = ("tune", "train.py", "--keep-batch", "--study", "s", "--budget", "60s")
KEEP = ("--knob", "placebo", "--knob", "malloc=libc,libc-tuned")  # nothing helps: the search alone
CHANGE = ("--knob", "gc_freeze=off,freeze")  # it helps: reduction, gate and confirmation too
LIMIT_S = 240.0


@dataclass
class Toy:
    """Where the study is run."""

    folder: Path
    mark: str
    knobs: tuple[str, ...] = KEEP
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700)
        (self.folder / "tmp").mkdir(mode=0o700)
        (self.folder / "train.py").write_text("import torch\n")

    def start(
        self, *options: str, fault: str = "none@0", terminal: int | None = None, wrap: Sequence[str] = ()
    ) -> "subprocess.Popen[str]":
        """Run the study with a fault.

        Args:
            options: Of ``advisor tune``.
            fault: See `injector`.
            terminal: Descriptor of the terminal that the process shall have; pipes without one.
            wrap: A command that runs the study's.
        """
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", MARK: self.mark, "TMPDIR": str(self.folder / "tmp"),
            VARIABLE: fault, LOG: str(self.log), ACKNOWLEDGED: str(self.folder / "acknowledged"),
            **self.environment,
        }  # fmt: skip
        pipe = subprocess.PIPE if terminal is None else terminal
        return subprocess.Popen(
            [*wrap, sys.executable, str(PROGRAM), *COMMAND, *self.knobs, *options],
            cwd=self.folder, env=environment, text=True, stdout=pipe, stderr=pipe,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            start_new_session=terminal is None,
            preexec_fn=None if terminal is None else partial(os.login_tty, terminal),
        )  # fmt: skip

    def run(self, *options: str, fault: str = "none@0", wrap: Sequence[str] = ()) -> tuple[int, str]:
        """Run it to its end: exit code and what it said."""
        with self.start(*options, fault=fault, wrap=wrap) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out + err

    @property
    def log(self) -> Path:
        """Where the points that were passed are listed."""
        return self.folder / "hits"

    def going_on(self) -> list[str]:
        """``--resume`` where there is something to resume."""
        with suppress(sqlite3.OperationalError):  # no file, or no tables in it
            database = sqlite3.connect(f"file:{self.folder}/.advisor/studies.db?mode=ro", uri=True)
            with closing(database):
                if database.execute("select 1 from advisor_studies where name = 's'").fetchone():
                    return ["--resume"]
        return []

    def resume(self) -> fault_oracle.Kept:
        """Take the study up again as its user would, to a clean end."""
        code, said = self.run(*self.going_on())
        assert code == 0, said
        return fault_oracle.check(self.folder, mark=self.mark, code=code)

    def points(self) -> list[str]:
        """The points that were passed, each as ``NAME#N``."""
        counts: Counter[str] = Counter()
        found = []
        for name in names(self.log):
            counts[name] += 1
            found.append(f"{name}#{counts[name]}")
        return found
