"""What acts in evaluations is compared by the time from one evaluation to the next."""

from pathlib import Path
from typing import Any

import pytest
from builders import a_run

from advisor.profiles.hooks.clock import Step
from advisor.tuners.duel import BATON, LIVE, WINDOWS, Arena, Duel
from advisor.tuners.evaluating import EVALUATION, flag_between, seconds
from advisor.tuners.failures import TrialFailed
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launch import Launcher
from advisor.tuners.measure import Slot
from advisor.tuners.session import as_slot
from advisor.tuners.slot import SlotTask
from advisor.tuners.spec import Target

TRAIN_MS, EVALUATE_MS = 1, 11  # wall time of a step alone, and of one with an evaluation before it
GRAPH: dict[str, int | str] = {"inference_mode": "grad", "amp": "off"}
PLAIN: dict[str, int | str] = {"inference_mode": "no_grad", "amp": "off"}

# An evaluation sleeps as long as its mode says, so that the ratio is known.
PROGRAM = """
import time
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, inputs):
        time.sleep(0.002 if self.training else 0.03 if torch.is_grad_enabled() else 0.01)
        return self.layer(inputs)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100000):
    model.train()
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step % 5 == 4 and step < LAST:
        model.eval()
        model(torch.ones(2, 4))
"""


def a_step(number: int, *flags: str) -> Step:
    wall_ns = (EVALUATE_MS if "evaluation" in flags else TRAIN_MS) * 1_000_000
    return Step(number, "step", wall_ns, (), frozenset(flags), 0, 8, "a", 1)


def a_slot(steps: int, **options: Any) -> SlotTask:
    return SlotTask(a_run(), steps, 1, frozenset(), 60.0, "cpu", between=EVALUATION, **options)


def taken(task: SlotTask, every: int, first: int) -> list[int]:
    """Numbers of the steps that a slot saw, of a program that evaluates before each ``every``-th step."""
    task.begin()
    numbers = []
    for number in range(first, 100):
        numbers.append(number)
        if task.take(a_step(number, *["evaluation"] * (number % every == 0))):
            break
    return numbers


def test_a_slot_waits_for_an_evaluation_and_ends_with_another() -> None:
    task = a_slot(1)
    assert taken(task, every=4, first=2) == [2, 3, 4, 5, 6, 7, 8]
    message = task.finish()
    assert (len(message["wall_ns"]), len(message["flagged_ns"])) == (3, 1)


def test_the_next_slot_begins_where_the_last_one_ended() -> None:
    assert taken(a_slot(1, aligned=True), every=4, first=5) == [5, 6, 7, 8]
    assert taken(a_slot(5, aligned=True), every=4, first=5) == list(range(5, 13))
    assert taken(a_slot(5, aligned=True, exact=True), every=4, first=5) == list(range(5, 13))


def test_a_slot_in_which_no_evaluation_comes_ends_late(monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_slot(1)
    task.begin()
    assert not task.take(a_step(1))
    monkeypatch.setattr("advisor.tuners.slot.time.perf_counter", lambda: 1e9)
    assert not task.take(a_step(2))
    assert task.take(a_step(3))
    assert len(task.finish()["wall_ns"]) == 1


def test_of_an_interval_all_counts() -> None:
    task = a_slot(1, aligned=True)
    taken(task, every=4, first=5)
    message, slot = task.finish(), Slot((TRAIN_MS / 1000,) * 3, work=8.0)
    assert message["whole"]
    whole = (3 * TRAIN_MS + EVALUATE_MS) / 4 / 1000
    assert seconds(slot, message, EVALUATION, by_work=False) == pytest.approx(whole)
    assert seconds(slot, message, EVALUATION, by_work=True) == pytest.approx(whole / 8)
    assert seconds(slot, message, None, by_work=False) == TRAIN_MS / 1000


def test_time_counts_from_the_end_of_what_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SlotTask(a_run(), 3, 2, frozenset(), 60.0, "cpu", between=EVALUATION)
    task.begin()
    monkeypatch.setattr("advisor.tuners.slot.time.perf_counter", lambda: 1e9)  # a first step that compiled
    assert taken(task, every=4, first=1) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert task.finish()["whole"]


def test_a_part_of_an_interval_is_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_slot(10, aligned=True)
    task.begin()
    steps = [a_step(1), a_step(2), a_step(3, "evaluation")]
    assert not any(task.take(step) for step in steps)
    monkeypatch.setattr("advisor.tuners.slot.time.perf_counter", lambda: 1e9)
    assert task.take(a_step(4))
    message = task.finish()
    with pytest.raises(TrialFailed, match="no whole interval") as raised:
        seconds(as_slot(message), message, EVALUATION, by_work=False)
    assert raised.value.failure.cause == "timeout"


def test_in_time_whole_intervals_are_enough_though_fewer_steps_than_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = a_slot(100, aligned=True)
    task.begin()
    assert not any(task.take(step) for step in (a_step(1), a_step(2, "evaluation"), a_step(3)))
    late = task._began + 61.0
    monkeypatch.setattr("advisor.tuners.slot.time.perf_counter", lambda: late)
    assert not task.take(a_step(4))
    assert task.take(a_step(5, "evaluation"))
    assert task.finish()["whole"]


def test_a_step_that_was_set_apart_for_something_else_is_no_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = a_slot(10, aligned=True)
    task.begin()
    assert not any(task.take(step) for step in (a_step(1), a_step(2, "save")))
    monkeypatch.setattr("advisor.tuners.slot.time.perf_counter", lambda: 1e9)
    assert task.take(a_step(3))
    message = task.finish()
    assert seconds(as_slot(message), message, EVALUATION, by_work=False) > 0  # refused: no evaluation came


def test_of_other_load_the_part_of_the_steps_alone_counts() -> None:
    task = a_slot(1, aligned=True)
    taken(task, every=4, first=5)
    slot = as_slot({**task.finish(), "other_cpu_s": 0.7, "throttled_s": 0.07})
    part = 3 * TRAIN_MS / (3 * TRAIN_MS + EVALUATE_MS)
    assert (slot.other_cpu_s, slot.throttled_s) == pytest.approx((0.7 * part, 0.07 * part))


def test_only_what_acts_in_evaluations_is_compared_so() -> None:
    assert flag_between(GRAPH, PLAIN, KNOBS) == EVALUATION
    assert flag_between(GRAPH, {**PLAIN, "amp": "bf16"}, KNOBS) == EVALUATION
    assert flag_between(PLAIN, {**PLAIN, "amp": "bf16"}, KNOBS) is None


def test_a_short_program_is_launched_for_each_interval() -> None:
    arena = Arena(None, KNOBS, GRAPH)  # type: ignore[arg-type]  # nothing is started
    assert arena.how(GRAPH, PLAIN) == LIVE
    arena.max_steps = 100_000
    assert arena.how(GRAPH, PLAIN) == WINDOWS


def compared(folder: Path, how: str, *, last: str, quads: int = 1) -> Duel:
    """Two modes side by side in a program that evaluates up to step ``last``."""
    (folder / "train.py").write_text(PROGRAM.replace("LAST", last))
    grad: dict[str, int | str] = {"inference_mode": "grad"}
    target = Target("script", str(folder / "train.py"), cwd=str(folder))
    with Launcher(target, folder / "trials") as launcher:
        arena = Arena(launcher, KNOBS, grad, step_s=0.002, fixed_steps=40, fixed_warmup=3)
        return arena.duel(grad, {"inference_mode": "no_grad"}, how=how, quads=quads)


@pytest.mark.slow
@pytest.mark.parametrize("how", [LIVE, BATON, WINDOWS])
def test_the_time_of_evaluations_is_what_is_compared(how: str, tmp_path: Path) -> None:
    duel = compared(tmp_path, how, last="step + 1", quads=2)
    assert all(0.3 < ratio < 1.0 for ratio in duel.log_ratios)  # 5 x 2 + 30 over 5 x 2 + 10 ms, and overhead
    assert duel.second_message["applied"] == ["inference_mode"]
    assert duel.second_message["refused"] == {}
    assert all(slot.mean_s < 0.006 for slot in duel.second)  # a step is told as it is elsewhere
    assert not any(slot.cpu_s for slot in [*duel.first, *duel.second])  # the steps' alone is no clock for it


@pytest.mark.slow
def test_a_program_that_evaluates_no_more_has_it_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.tuners.duel.LIMIT_S", 0.5)
    duel = compared(tmp_path, LIVE, last="6")
    assert duel.second_message["refused"] == {"inference_mode": "no evaluation ran in the measured steps"}
    assert duel.second_message["applied"] == []
