"""The process of the next instance starts with this one's and waits for its turn."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from builders import a_machine, a_profile
from replayed_program import Effect, Program
from replayed_sessions import ReplayingLauncher

from advisor.profiles.facts.profile import RunFacts
from advisor.stages.baseline import start_at_once
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.comparing.ways import BATON, LIVE, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.spec import Target

PROGRAM = """
import fcntl, pathlib, torch
{first}
pathlib.Path("started.txt").open("a").write("started\\n")
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    pathlib.Path("turns.txt").open("a").write(f"{{id(model)}}\\n") if step == 2 else None
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""
ALONE = 'held = open("lock", "w"); fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)'
OFF: dict[str, Value] = {"gc_freeze": "off"}
ON: dict[str, Value] = {"gc_freeze": "manual"}

pytestmark = pytest.mark.usefixtures("no_process_remains")


@contextmanager
def arena_of(folder: Path, first: str = "") -> Iterator[Arena]:
    (folder / "train.py").write_text(PROGRAM.format(first=first))
    (folder / "study").mkdir()
    target = Target("script", str(folder / "train.py"), cwd=str(folder))
    launcher = Launcher(target, folder / "study", device="cpu")
    launcher.limits.start_s = 120
    with launcher:
        yield Arena(launcher, KNOBS, OFF, step_s=0.001)


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


@pytest.mark.usefixtures("warm_trials")
def test_two_instances_start_together_and_run_one_after_the_other(tmp_path: Path) -> None:
    with arena_of(tmp_path) as arena:
        one = arena.duel(OFF, ON, how=LIVE, quads=1, followed=True)
        assert (lines(tmp_path / "started.txt"), lines(tmp_path / "turns.txt")) == (2, 1)
        log = arena.log
        two = arena.duel(OFF, ON, how=LIVE, quads=1, swapped=True)
        assert (lines(tmp_path / "started.txt"), lines(tmp_path / "turns.txt")) == (2, 2)
        assert arena.launcher.launches == 2 and arena.log != log
        assert len(one.log_ratios) == len(two.log_ratios) == 1


@pytest.mark.long
def test_a_program_that_runs_alone_only_is_started_for_its_turn(tmp_path: Path) -> None:
    with arena_of(tmp_path, ALONE) as arena:
        assert arena.duel(OFF, ON, how=LIVE, quads=1, followed=True).log_ratios
        assert arena.duel(OFF, ON, how=LIVE, quads=1, swapped=True).log_ratios
        assert arena.launcher.launches <= 4
        assert lines(tmp_path / "turns.txt") == 2


@pytest.fixture
def paper(tmp_path: Path) -> Arena:
    """The same for a program on paper, which takes two seconds to start."""
    return arena_on_paper(tmp_path, Program(startup_s=2.0))


def arena_on_paper(folder: Path, program: Program) -> Arena:
    launcher = ReplayingLauncher(Target("module", "train"), folder, program=program)
    return Arena(launcher, KNOBS, OFF, step_s=program.step_s, clock=lambda: launcher.now)


@pytest.mark.parametrize(("busy_s", "saved_s"), [(0.0, 0.0), (1.0, 1.0), (5.0, 2.0)])
def test_processes_that_begin_while_something_else_goes_on_are_ready_earlier(
    paper: Arena, busy_s: float, saved_s: float
) -> None:
    usual = Instance(0, OFF, ON, LIVE, 1).measured(paper).seconds
    paper.three_fit, instance = True, Instance(0, OFF, ON, LIVE, 1)
    paper.ahead.drop()
    assert instance.begin(paper)
    cast(ReplayingLauncher, paper.launcher).now += busy_s
    duel = instance.measured(paper)
    assert usual - duel.seconds == pytest.approx(saved_s, abs=0.01)
    assert Instance(1, OFF, ON, LIVE, 1).measured(paper).log_ratios and paper.launcher.launches == 4


@pytest.mark.parametrize("reason", ["memory", "threads", "nothing follows"])
def test_they_begin_only_where_they_can(paper: Arena, reason: str) -> None:
    paper.three_fit, paper.at_once = reason != "memory", reason != "threads"
    assert not Instance(int(reason == "nothing follows"), OFF, ON, LIVE, 1).begin(paper)
    assert paper.launcher.launches == 0


def test_what_fails_beside_others_is_started_for_its_turn(tmp_path: Path) -> None:
    failure = Failure("user_error", "somebody holds the lock")
    beside_another = Effect(lambda config: arena.launcher.launches <= 2, fails=failure)
    arena = arena_on_paper(tmp_path, Program([beside_another]))
    arena.three_fit, instance = True, Instance(0, OFF, ON, LIVE, 1)
    assert instance.begin(arena)
    assert instance.measured(arena).log_ratios
    assert arena.launcher.launches == 3 and not instance.begin(arena)


def test_what_waits_for_another_configuration_is_dropped(paper: Arena) -> None:
    paper.duel(OFF, ON, how=LIVE, quads=1, followed=True)
    paper.duel(OFF, ON, how=LIVE, quads=1)
    assert paper.launcher.launches == 3


def test_what_nobody_takes_is_ended(paper: Arena) -> None:
    paper.duel(OFF, ON, how=LIVE, quads=1, followed=True)
    paper.ahead.drop()
    paper.duel(OFF, ON, how=LIVE, quads=1, swapped=True)
    assert paper.launcher.launches == 3


def test_a_program_that_fails_by_itself_fails(tmp_path: Path) -> None:
    failure = Failure("user_error", "of its own")
    arena = arena_on_paper(tmp_path, Program([Effect(lambda config: True, fails=failure)]))
    with pytest.raises(TrialFailed, match="of its own"):
        arena.duel(OFF, ON, how=LIVE, quads=1, followed=True)
    assert arena.launcher.launches == 3


def test_nothing_waits_where_two_processes_do_not_fit(paper: Arena) -> None:
    paper.two_fit = False
    paper.duel(OFF, ON, how=LIVE, quads=1, followed=True)
    assert paper.launcher.launches == 1


def test_what_is_fixed_is_set_in_every_process_though_the_program_was_seen_with_it(paper: Arena) -> None:
    def applied() -> tuple[str, ...]:
        session = paper.start(OFF, 1)
        session.slot(1)
        session.kill()
        return session.last.applied

    assert applied() == ()  # it is what the program does by itself
    paper.fixed = {"gc_freeze": OFF["gc_freeze"]}
    assert applied() == ("gc_freeze",)


def test_processes_whose_threads_share_cpus_start_one_after_the_other(paper: Arena) -> None:
    paper.at_once = False
    paper.duel(OFF, ON, how=LIVE, quads=1, followed=True)
    assert paper.launcher.launches == 1
    apart = paper.duel(OFF, ON, how=BATON, quads=1)
    paper.at_once = True
    together = paper.duel(OFF, ON, how=BATON, quads=1)
    assert apart.seconds - together.seconds == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize(
    ("threads", "cpus", "other_cpus", "device", "at_once"),
    [
        (1, 2, 0.1, "cpu", True),
        (1, 2, 1.0, "cpu", False),
        (2, 2, 0.0, "cpu", False),
        (8, 16, 0.0, "cpu", True),
        (16, 16, 1.0, "cuda:0", True),
    ],
)
def test_two_start_at_once_where_their_threads_have_a_cpu_each(
    threads: int, cpus: int, other_cpus: float, device: str, at_once: bool
) -> None:
    profile = a_profile(a_machine(cpus_allowed=cpus), run=RunFacts(num_threads=threads), device=device)
    assert start_at_once(profile, other_cpus) is at_once
    assert start_at_once(profile, other_cpus, threads) is at_once


@pytest.mark.parametrize("how", [LIVE, BATON, WINDOWS])
def test_processes_that_compute_with_all_cpus_start_together_up_to_their_first_batches(
    paper: Arena, how: str
) -> None:
    paper.at_once, program = False, cast(ReplayingLauncher, paper.launcher).program
    apart = [Instance(place, OFF, ON, how, 1).measured(paper).seconds for place in (0, 1)]
    paper.waits = paper.start_at_once = True
    together = [Instance(place, OFF, ON, how, 1).measured(paper).seconds for place in (0, 1)]
    spared = 1 if how == LIVE else 2  # there each pair has one process
    assert sum(apart) - sum(together) == pytest.approx(spared * program.startup_s, abs=0.1)


def test_a_program_that_does_not_wait_before_a_batch_is_started_for_its_turn(tmp_path: Path) -> None:
    arena = arena_on_paper(tmp_path, Program(startup_s=2.0, loads_late=False))
    arena.at_once, arena.waits, arena.start_at_once = False, True, True
    assert arena.duel(OFF, ON, how=BATON, quads=1).log_ratios
    assert arena.launcher.launches == 4
    assert arena.duel(OFF, ON, how=BATON, quads=1).log_ratios
    assert arena.launcher.launches == 6
