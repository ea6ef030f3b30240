"""A process is killed at every point of a study; each time it is resumed and finds what it would have found.

The measurements are written down, so the undisturbed study and the resumed one are the same.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import fault_oracle
import pytest
from fault_oracle import Kept
from injector import LOG, names
from toy import CHANGE, Toy
from warm import Warm

from advisor.base.fault_points import VARIABLE
from advisor.patching import backup

KILLED = -signal.SIGKILL
OF_THE_TUNER = (
    "schema", "claim", "contract", "optuna_schema", "trial.write", "trial.fsync", "trial.rename", "spawn",
    "outcome.read", "begin", "ask", "commit", "tell", "result", "report.rename", "release",
)  # fmt: skip
OF_THE_TRIAL = ("outcome.write", "outcome.fsync", "outcome.rename")
QUICK = ("report.rename.after#2",)  # of the tuner; the others are faults
SEED, KILLS = 0, 25


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kept, list[str]]:
    """What the study finds when nothing happens, and the points that it passes."""
    toy = Toy(tmp_path_factory.mktemp("undisturbed") / "toy", "undisturbed")
    code, said = toy.run()
    assert code == 0, said
    return fault_oracle.check(toy.folder, mark=toy.mark, code=code), toy.points()


def survives(toy: Toy, point: str, expected: Kept) -> None:
    """Kill at a point, judge what is left, resume, judge again, and compare with the undisturbed study."""
    code, said = toy.run(fault=f"kill9@{point}")
    of_the_trial = point.startswith(OF_THE_TRIAL)
    assert code in ((0, 3, 4) if of_the_trial else (KILLED,)), (point, said)
    fault_oracle.check(toy.folder, mark=toy.mark, code=code, codes=(code,), scratch=True)
    resumed = toy.resume()
    assert resumed.configs == expected.configs, point
    assert resumed.verdict == expected.verdict, point
    lost = [trial for trial in resumed.trials.values() if trial.state == "failed"]
    assert len(lost) <= 1, (point, lost)


def test_the_points_are_those_that_the_promises_name(undisturbed: tuple[Kept, list[str]]) -> None:
    kept, points = undisturbed
    assert kept.verdict == "keep" and len(kept.configs) == 4
    passed = {point.partition("#")[0] for point in points}
    for name in (*OF_THE_TUNER, *OF_THE_TRIAL):
        assert passed & {f"{name}.before", f"{name}.after"}, name


@pytest.mark.slow
@pytest.mark.parametrize("point", QUICK)
def test_a_study_killed_at_a_point_is_resumed_to_the_same_end(
    point: str, undisturbed: tuple[Kept, list[str]], tmp_path: Path, no_process_remains: str
) -> None:
    assert point in undisturbed[1]
    survives(Toy(tmp_path / "toy", no_process_remains), point, undisturbed[0])


@pytest.mark.faults
@pytest.mark.parametrize("name", [*OF_THE_TUNER, *OF_THE_TRIAL])
def test_a_study_killed_at_any_point_of_a_kind_is_resumed_to_the_same_end(
    name: str, undisturbed: tuple[Kept, list[str]], tmp_path: Path, no_process_remains: str
) -> None:
    points = [point for point in undisturbed[1] if point.startswith(f"{name}.")]
    assert points
    for number, point in enumerate(points):
        survives(Toy(tmp_path / f"toy{number}", no_process_remains), point, undisturbed[0])


@pytest.mark.faults
def test_a_study_killed_at_random_moments_loses_nothing_that_was_acknowledged(
    tmp_path: Path, no_process_remains: str
) -> None:
    toy, generator = Toy(tmp_path / "toy", no_process_remains, CHANGE), random.Random(SEED)
    for _ in range(KILLS):
        passed = len(names(toy.log))
        with toy.start(*toy.going_on()) as tuner:
            wait_for(lambda: len(names(toy.log)) > passed or tuner.poll() is not None)  # noqa: B023  used at once
            time.sleep(generator.uniform(0.0, 4.0))
            tuner.kill()
            tuner.communicate()
        codes = (KILLED, 0)
        fault_oracle.check(toy.folder, mark=toy.mark, code=tuner.returncode, codes=codes, scratch=True)
    assert toy.resume().verdict == "change"


PATCHING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import injector
injector.load()
from advisor.patching.backup import write_patch
write_patch(Path("train.py"), b"before\\n", b"after\\n")
"""


def test_wherever_a_patch_is_killed_the_file_is_whole_and_can_be_taken_back(
    tmp_path: Path, warm: Warm
) -> None:
    points = ["none@0", *(f"kill9@{number}" for number in range(1, 5))]
    for fault in points:
        folder = tmp_path / fault
        folder.mkdir()
        file = folder / "train.py"
        file.write_bytes(b"before\n")
        code = run_with(warm, PATCHING, folder, fault)
        assert code == (0 if fault == "none@0" else KILLED), fault
        assert file.read_bytes() in (b"before\n", b"after\n")
        if backup.backup_of(file).exists():
            backup.revert(file, lambda content: content.replace(b"before", b"after"))
        assert file.read_bytes() == b"before\n"
        left = {each.name for each in folder.iterdir() if not each.name.endswith(".tmp")}
        assert left == {"train.py", "hits"}
    assert len(names(tmp_path / "none@0" / "hits")) == 4


RECORDING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import injector
injector.load()
import torch
from advisor.profiles.hooks.recorder import Recorder
recorder = Recorder(Path("trace.json"))
recorder.start()
torch.ones(4).exp()
recorder.stop()
"""


def test_a_program_killed_beside_its_trace_leaves_it_whole_or_not_at_all(tmp_path: Path, warm: Warm) -> None:
    for point, there in (("artefact.before", False), ("artefact.after", True)):
        folder = tmp_path / point
        folder.mkdir()
        code = run_with(warm, RECORDING, folder, f"kill9@{point}")
        assert code == KILLED
        assert (folder / "trace.json").exists() is there
        if there:
            assert json.loads((folder / "trace.json").read_text())["traceEvents"]


def run_with(warm: Warm, program: str, folder: Path, fault: str) -> int:
    """Run a Python program in a folder with a fault: how it ended."""
    environment = {**os.environ, VARIABLE: fault, LOG: str(folder / "hits")}
    return warm.run("-c", program, Path(__file__).parent, cwd=folder, env=environment).returncode


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
