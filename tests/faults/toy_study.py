"""``advisor`` as users call it, but for the trials, whose measurements are written down, and for faults.

Run as ``python toy_study.py ARGUMENTS`` in a folder of its own. Trials that the store acknowledged are
listed in the file that ``ADVISOR_TEST_ACKNOWLEDGED`` names.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import injector  # noqa: E402
from builders import a_rich_profile  # noqa: E402
from scripted_trial import STUCK, fate_of  # noqa: E402

from advisor import cli  # noqa: E402
from advisor.profiles.facts.machine import read_machine  # noqa: E402
from advisor.result.document import Trial  # noqa: E402
from advisor.stages import launching  # noqa: E402
from advisor.storage.store import Store  # noqa: E402
from advisor.tuners.launching.launch import Launcher  # noqa: E402
from advisor.tuners.space.configuration import Configuration  # noqa: E402
from advisor.tuners.trial.spec import TrialSpec  # noqa: E402

STEPPING = "ADVISOR_TEST_CLOCK"
SUPERVISORS = (("-P", "-m", "advisor.tuners.supervision.supervise"), (str(HERE / "powerless.py"),))
ACKNOWLEDGED = "ADVISOR_TEST_ACKNOWLEDGED"


def spawn(
    self: Launcher, spec: TrialSpec, environment: Mapping[str, str], channel: int, status: int, control: int
) -> "subprocess.Popen[bytes]":
    """As ``Launcher`` does it, with the scripted trial as the program."""
    folder, facts = Path(spec.folder), self.folder / "facts.json"
    facts.write_text(json.dumps(asdict(a_rich_profile(read_machine()))))
    is_stuck = fate_of(spec) == STUCK
    command = [
        sys.executable, *SUPERVISORS[is_stuck], "--parent", str(os.getpid()),
        "--stdout", str(folder / "stdout.log"), "--stderr", str(folder / "stderr.log"),
        "--status-fd", str(status), "--control-fd", str(control), "--pass-fd", str(channel),
        "--", sys.executable, str(HERE / "scripted_trial.py"), "--facts", str(facts),
        "--spec", str(folder / "trial.json"), "--fd", str(channel),
    ]  # fmt: skip
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=(channel, status, control), cwd=self.target.cwd,
        env=self._environment(environment, folder), start_new_session=True,
    )  # fmt: skip


def list_acknowledged() -> None:
    """Note each trial whose recording has returned."""
    record, list_of_them = Store.record, Path(os.environ[ACKNOWLEDGED])

    def recorded(self: Store, study: str, trial: Trial, **told: Any) -> None:
        record(self, study, trial, **told)
        with list_of_them.open("a") as stream:
            stream.write(f"{trial.number} {trial.state} {Configuration(trial.config).key}\n")

    setattr(Store, "record", recorded)  # noqa: B010  a method cannot be assigned


def step_the_clock_back() -> None:
    """Have each look at the wall clock find it ten minutes earlier than the one before."""
    began, looks = time.time(), itertools.count()
    time.time = lambda: began - 600 * next(looks)


def main() -> None:
    """Entry of the tuner."""
    injector.load()
    setattr(Launcher, "_spawn", spawn)  # noqa: B010
    setattr(launching, "_coverage", lambda *_: None)  # noqa: B010  scripted trials write nothing
    list_acknowledged()
    if STEPPING in os.environ:
        step_the_clock_back()
    sys.exit(cli.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
