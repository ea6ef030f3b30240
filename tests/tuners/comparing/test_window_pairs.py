"""Both processes of a pair of windows start at once, and wait for their turns before they load a batch."""

from pathlib import Path

import pytest
from replayed_program import Program
from replayed_sessions import ReplayingLauncher

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import queue_depth
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target

NONE: dict[str, Value] = {"num_workers": 0}
TWO: dict[str, Value] = {"num_workers": 2}
STARTUP_S = 2.0
SCRIPT = """
import pathlib, time, torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        pathlib.Path("loaded.txt").touch()
        return torch.ones(4)

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Items(), batch_size=2):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


def on_paper(folder: Path, loads_late: bool = True) -> Arena:
    program = Program(startup_s=STARTUP_S, loads_late=loads_late)
    launcher = ReplayingLauncher(Target("module", "train"), folder, program=program)
    return Arena(
        launcher, KNOBS, NONE, step_s=0.02, waits=True, queue_depth=queue_depth, clock=lambda: launcher.now
    )


def test_a_pair_takes_one_start_in_place_of_two(tmp_path: Path) -> None:
    arena = on_paper(tmp_path)
    together = arena.duel(NONE, TWO, how=WINDOWS, quads=1)
    arena.waits = False
    apart = arena.duel(NONE, TWO, how=WINDOWS, quads=1)
    assert apart.seconds - together.seconds == pytest.approx(STARTUP_S, abs=0.1)
    assert arena.launcher.launches == 4 and together.startup_s == apart.startup_s == STARTUP_S


@pytest.mark.parametrize("swapped", [False, True])
def test_either_may_come_first(swapped: bool, tmp_path: Path) -> None:
    arena = on_paper(tmp_path)
    duel = arena.duel(NONE, TWO, how=WINDOWS, quads=1, swapped=swapped)
    steps = {name: sum(arena.window_steps(config)) for name, config in (("first", NONE), ("second", TWO))}
    assert duel.first_outcome is not None and duel.second_outcome is not None
    assert duel.first_outcome.steps >= steps["first"] and duel.second_outcome.steps >= steps["second"]
    assert duel.second_outcome.applied == ("num_workers",) and not duel.first_outcome.applied


def test_one_that_loads_in_its_own_way_is_started_for_its_turn_from_then_on(tmp_path: Path) -> None:
    arena = on_paper(tmp_path, loads_late=False)
    arena.duel(NONE, TWO, how=WINDOWS, quads=1)
    assert arena.launcher.launches == 4  # those two were of no use: their workers may have run ahead
    arena.duel(NONE, TWO, how=WINDOWS, quads=1)
    assert arena.launcher.launches == 6


def test_where_one_window_is_known_only_the_other_is_started(tmp_path: Path) -> None:
    arena = on_paper(tmp_path)
    for _ in range(2):
        arena.duel(NONE, TWO, how=WINDOWS, quads=1, reuse=True)
    assert arena.launcher.launches == 3


@pytest.mark.usefixtures("no_process_remains", "warm_trials")
def test_a_process_that_waits_has_asked_for_no_data(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "study").mkdir()
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    with Launcher(target, tmp_path / "study", device="cpu") as launcher:
        launcher.limits.start_s = 240
        arena = Arena(launcher, KNOBS, NONE, step_s=0.01, waits=True, queue_depth=queue_depth)
        arena.ahead.both((NONE, TWO), lambda config: arena.start(config, 1, waits=True))
        first, second = arena.ahead.take(NONE), arena.ahead.take(TWO)
        assert first is not None and second is not None and arena.ahead.take(TWO) is None
        assert not (tmp_path / "loaded.txt").exists()
        slot = second.window(12, drop=4)
        assert (tmp_path / "loaded.txt").exists() and len(slot.step_s) == 12
        assert "num_workers" in second.last.applied
        second.stop()
        first.kill()
