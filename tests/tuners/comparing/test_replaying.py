"""Replays in rounds, on a process that exists on paper: which blocks are measured, and what follows."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from builders import a_loader, a_profile, an_optimizer

from advisor.profiles.facts.profile import Profile, RunFacts, StepPhases
from advisor.tuners.comparing.replay import Effort, Replaying, normal_step_s
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.look_messages import Omit, Omitted
from advisor.tuners.trial.messages import Slot, TrialOutcome

STEP_S = 0.5
FACTORS = {"loader": 0.8, "optimizer": 0.9, "backward": 0.4, "half": 0.5, "double": 1.6}
NAMES = ("loader_free", "optimizer_off", "half_batch", "double_batch")
FEW = Effort(block_s=0.0, rounds=(3, 3), sizes=(2, 2))


@dataclass
class Paper:
    """Steps take ``STEP_S`` and drift; with a part left out so many times as long.

    Attributes:
        blocks: What was left out in each block, with its steps dropped and measured.
    """

    refuses: str | None = None
    fails_at: tuple[str, Exception] | None = None
    part: str | None = None
    alive: bool = True
    made: int = 0
    blocks: list[tuple[str | None, int, int]] = field(default_factory=list)

    def ask(self, command: Omit, answer: Any, wait_s: float) -> Omitted:
        if command.part is not None and command.part == self.refuses:
            self.part = None
            return Omitted("it cannot be left out")
        self.part = command.part
        return Omitted(None)

    def slot(self, steps: int, *, drop: int, limit_s: float) -> Slot:
        if self.fails_at is not None and self.part == self.fails_at[0]:
            self.alive = False
            raise self.fails_at[1]
        self.blocks.append((self.part, drop, steps))
        self.made += 1
        return Slot((STEP_S * FACTORS.get(self.part or "", 1.0) * (1 + 0.001 * self.made),) * steps)


def known(**facts: Any) -> Profile:
    phases = StepPhases(step_ms=500.0, steps=10, input_wait_ms=100.0, optimizer_ms=50.0, other_ms=350.0)
    usual = {"loader": a_loader(), "optimizers": (an_optimizer(),), "run": RunFacts(), "phases": phases}
    return a_profile(**{**usual, **facts})


def replaying(paper: Paper, profile: Profile | None = None, deadline: float = 1.0) -> Replaying:
    session: Any = paper
    return Replaying(session, profile or known(), STEP_S, deadline, FEW, clock=lambda: 0.0)


def test_all_parts_share_the_blocks_of_the_normal_step_and_drift_cancels() -> None:
    paper = Paper()
    found = replaying(paper).run(NAMES)
    there = [None, "loader", "optimizer"]
    assert [part for part, _, _ in paper.blocks[:6]] == [*there, *reversed(there)]
    sizes = ["loader", "half", "double"]
    assert [part for part, _, _ in paper.blocks[18:24]] == [*sizes, *reversed(sizes)]
    assert len(paper.blocks) == 3 * 6 + 2 * 6 and paper.part is None
    assert found.loader_free is not None and found.loader_free.share == pytest.approx(0.2, abs=1e-4)
    assert found.optimizer_off is not None and found.optimizer_off.share == pytest.approx(0.1, abs=1e-4)
    assert found.half_batch is not None and found.half_batch.share == pytest.approx(0.5 / 0.8, abs=1e-3)
    assert found.double_batch is not None and found.double_batch.share == pytest.approx(2.0, abs=1e-2)
    assert found.refused == ()


def test_a_step_is_dropped_only_where_a_batch_is_still_fetched() -> None:
    paper = Paper()
    replaying(paper).run(NAMES)
    dropped = {part: drop for part, drop, _ in paper.blocks[:3]}
    assert dropped == {None: 0, "loader": 1, "optimizer": 0}
    assert paper.blocks[3] == ("optimizer", 0, 1)  # still left out: nothing has changed
    assert sum(steps for _, _, steps in paper.blocks) == 3 * 6 + 2 * 6
    assert sum(drop for _, drop, _ in paper.blocks) == 3 * 2 + (
        5 + 4
    )  # the loader, then batches of other sizes


def test_blocks_are_whole_periods() -> None:
    paper = Paper()
    replaying(paper, known(run=RunFacts(period=4))).run(["optimizer_off"])
    assert {steps for _, _, steps in paper.blocks} == {4}


def test_a_loader_with_workers_is_compared_with_what_was_watched() -> None:
    paper = Paper()
    found = replaying(paper, known(loader=a_loader(num_workers=2))).run(["loader_free", "optimizer_off"])
    assert [part for part, _, _ in paper.blocks[:4]] == ["loader", "loader", "loader", None]
    assert found.loader_free is not None and found.loader_free.share == pytest.approx(0.2, abs=0.01)


def test_a_loader_that_nobody_waits_for_is_not_replayed_but_other_batch_sizes_are() -> None:
    paper, profile = Paper(), known()
    assert profile.phases is not None
    idle = replace(profile, phases=replace(profile.phases, input_wait_ms=1.0))
    found = replaying(paper, idle).run(NAMES)
    assert dict(found.refused) == {"loader_free": "the step does not wait for data"}
    assert found.loader_free is None and found.double_batch is not None


def test_what_cannot_be_left_out_leaves_the_rest() -> None:
    found = replaying(Paper(refuses="optimizer")).run(NAMES)
    assert dict(found.refused) == {"optimizer_off": "it cannot be left out"}
    assert found.loader_free is not None and found.half_batch is not None


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (TrialFailed(Failure("user_error", "RuntimeError: size mismatch")), "RuntimeError: size mismatch"),
        (SessionEnded(TrialOutcome("ended")), "the program ended"),
    ],
)
def test_a_batch_size_that_ends_the_program_leaves_what_is_known(end: Exception, said: str) -> None:
    found = replaying(Paper(fails_at=("half", end))).run(NAMES)
    assert found.loader_free is not None and found.optimizer_off is not None
    assert dict(found.refused) == dict.fromkeys(("half_batch", "double_batch"), said)


def test_without_time_nothing_is_measured() -> None:
    paper = Paper()
    found = replaying(paper, deadline=-1.0).run(NAMES)
    assert dict(found.refused) == dict.fromkeys(NAMES, "no time was left") and paper.blocks == []


def test_one_stall_is_no_steady_state_but_workers_that_deliver_in_bursts_are() -> None:
    usual = [1_000_000] * 30
    assert normal_step_s([*usual, 50_000_000], ()) == pytest.approx(0.001)
    bursts = [*usual, 50_000_000] * 4
    assert normal_step_s(bursts, ()) > 0.002
    assert normal_step_s([*usual, 50_000_000], {30}) == pytest.approx(0.001)
