"""Numbers of changes that one process can switch to cost no launch; others cost fresh processes."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import a_profile, a_root
from confirmation_builder import a_bench
from replayed_program import Effect, Program, where
from replayed_sessions import ReplayingLauncher

from advisor.base.settings import GRACE
from advisor.stages.confirming.numerics import NodeLost, Numerics, NumericsGate, OtherNode, is_worn
from advisor.stages.confirming.numerics_check import NumericsCheck
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.gate import Learning, Reference, reference_of
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.trial.spec import Target

PRESENT = Configuration({"mkldnn": "on", "set_to_none": "off", "channels_last": "off"})
WRONG = (Effect(where(set_to_none="on"), loss=0.1), Effect(where(mkldnn="off"), loss=0.1))


def checked(
    folder: Path,
    program: Program,
    *,
    runs: bool = True,
    at_first: tuple[float, ...] = (),
    elsewhere: OtherNode | None = None,
    **changed: Value,
) -> tuple[Numerics, int, NumericsGate]:
    """What is found of a nominee, and the launches it took, beside a process that runs or without one."""
    launcher = ReplayingLauncher(Target("module", "train"), folder, program=program)
    arena = Arena(launcher, KNOBS, PRESENT, step_s=program.step_s, clock=lambda: launcher.now)
    baseline: Any = SimpleNamespace(profile=a_profile(roots=(a_root(),)), losses=at_first)
    settings: Any = SimpleNamespace(budget_s=100.0, max_memory=None)
    bench = a_bench(arena, baseline, settings, end=1000.0)
    space: Any = SimpleNamespace(
        present=PRESENT,
        complete=lambda changed: Configuration({**PRESENT, **changed}),
        without=lambda config, knob: config.with_({knob: PRESENT[knob]}),
    )
    running = launcher.start(0, PRESENT, PRESENT) if runs else None
    before = launcher.launches
    gate = NumericsGate.open(bench, PRESENT, GRACE, running, elsewhere)
    found = NumericsCheck(gate, space).run(PRESENT.with_(changed))
    gate.close()
    assert running is None or running.alive, "the process is another's"
    return found, launcher.launches - before, gate


def test_live_changes_are_judged_without_a_launch(tmp_path: Path) -> None:
    found, launches, gate = checked(tmp_path, Program(), mkldnn="off", set_to_none="on")
    assert launches == 0 and not gate.why_fresh
    assert {name: each.verdict for name, each in found.verdicts.items()} == {
        "": "identical", "mkldnn": "identical", "set_to_none": "identical",
    }  # fmt: skip


def test_of_several_that_drift_each_is_tried_alone_in_the_same_process(tmp_path: Path) -> None:
    found, launches, _ = checked(tmp_path, Program(effects=WRONG), mkldnn="off", set_to_none="on")
    assert launches == 0
    assert found.rejected.keys() == {"mkldnn", "set_to_none"} and found.config == PRESENT


def test_without_a_process_that_runs_one_is_started_and_ended(tmp_path: Path) -> None:
    found, launches, _ = checked(tmp_path, Program(), runs=False, mkldnn="off")
    assert launches == 1 and found.verdicts[""].verdict == "identical"


def test_in_a_process_that_has_learnt_too_much_nothing_is_compared(tmp_path: Path) -> None:
    found, launches, gate = checked(tmp_path, Program(), at_first=(1e3, 9e2), mkldnn="off")
    assert launches == 1 and not gate.why_fresh and found.verdicts[""].verdict == "identical"


@pytest.mark.parametrize(
    ("losses", "at_first", "worn"),
    [
        ((0.9, 0.8), (1.0, 1.1), False), ((0.1, 0.2), (1.0, 1.1), True), ((1.0, math.nan), (1.0, 1.1), True),
        ((1.0, math.nan), (1.0, math.nan), False), ((-3.0, -4.0), (-1.0, 1.1), False), ((), (1.0,), False),
        ((1.0,), (), False), ((0.0, 0.0), (0.0, 0.0), False),
    ],
)  # fmt: skip
def test_a_process_is_worn_where_its_losses_are_small_beside_the_first(
    losses: tuple[float, ...], at_first: tuple[float, ...], worn: bool
) -> None:
    assert is_worn(losses, at_first) is worn


def test_what_needs_a_restart_is_judged_by_fresh_processes(tmp_path: Path) -> None:
    found, launches, gate = checked(tmp_path, Program(), channels_last="on")
    assert launches == 5 and found.verdicts[""].verdict == "identical"
    assert gate.reference.peaks


def test_a_process_that_cannot_repeat_itself_leaves_it_to_fresh_ones(tmp_path: Path) -> None:
    found, launches, gate = checked(tmp_path, Program(repeats=False), mkldnn="off")
    assert launches == 5 and gate.why_fresh == "its state is not kept"
    assert found.verdicts[""].verdict == "identical"


def test_a_program_that_ends_meanwhile_leaves_it_to_fresh_ones(tmp_path: Path) -> None:
    launcher_steps = Program(steps=25)
    launcher = ReplayingLauncher(Target("module", "train"), tmp_path, program=launcher_steps)
    session = launcher.start(0, PRESENT, PRESENT)
    session.first_step()
    arena = Arena(launcher, KNOBS, PRESENT, step_s=launcher_steps.step_s, clock=lambda: launcher.now)
    baseline: Any = SimpleNamespace(profile=a_profile(roots=(a_root(),)), losses=())
    settings: Any = SimpleNamespace(budget_s=100.0, max_memory=None)
    gate = NumericsGate.open(a_bench(arena, baseline, settings, end=1000.0), PRESENT, GRACE, session)
    learned = gate.learn(PRESENT.with_({"mkldnn": "off"}))
    assert gate.judge(learned, ["mkldnn"], PRESENT).verdict == "identical"
    assert gate.why_fresh == "the program ended" and launcher.launches == 7, "one more was tried"


class Elsewhere:
    """Another node, which is lost after so many runs of candidates."""

    def __init__(self, runs: int) -> None:
        self.left = runs

    def reference(self) -> Reference:
        return reference_of([self.run()] * 4)

    def learn(self, config: Mapping[str, Value], nudge: int = 0) -> Learning:
        if not self.left:
            raise NodeLost
        self.left -= 1
        return self.run()

    def run(self) -> Learning:
        return Learning(tuple(2.3 * 0.98**step for step in range(20)), 2**20, grad_norms=(1.0,))


def test_fresh_processes_of_another_node_cost_no_launch_here(tmp_path: Path) -> None:
    found, launches, _ = checked(tmp_path, Program(), runs=False, channels_last="on", elsewhere=Elsewhere(1))
    assert launches == 0 and found.verdicts[""].verdict == "identical"


def test_what_a_lost_node_had_learnt_is_held_against_nothing(tmp_path: Path) -> None:
    lost = Elsewhere(0)
    found, launches, gate = checked(tmp_path, Program(), runs=False, channels_last="on", elsewhere=lost)
    assert launches == 5 and gate.elsewhere is None, "four of the program as it is, one of the candidate"
    assert found.verdicts[""].verdict == "identical"
