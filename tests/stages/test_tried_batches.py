"""What the trials of a search tell of batch sizes."""

import math
from collections.abc import Iterable
from typing import Any, Literal, cast

import pytest
from builders import a_loader, a_profile
from result_builder import a_ratio

from advisor.base.settings import Progress, Settings, TargetRequest
from advisor.result.document import Trial
from advisor.stages.assemble import _proposals
from advisor.stages.batch_size import Batches
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.tried_batches import tried_batches
from advisor.tuners.comparing.batches.goodput import NoiseScale
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

BASELINE = Configuration({"batch_size": 32, "lr_scaling": "none", "amp": "off"})


def a_trial(
    batch: int, ratio: float, stage: Literal["screen", "search", "confirm"] = "screen", amp: str = "off"
) -> Trial:
    rule = "none" if batch == 32 else "sqrt"
    return Trial(
        number=1,
        config={"batch_size": batch, "lr_scaling": rule, "amp": amp},
        stage=stage,
        against_baseline=a_ratio(ratio, 0.98 * ratio, 1.02 * ratio),
    )


def told(trials: Iterable[Trial]) -> list[tuple[int, str, float]]:
    found = tried_batches(trials, BASELINE)
    return [(each.batch_size, each.lr_scaling, round(math.exp(each.estimate.estimate), 3)) for each in found]


def test_a_batch_tried_alone_is_told_as_it_was_measured() -> None:
    assert told([a_trial(128, 3.6), a_trial(64, 2.7)]) == [(64, "sqrt", 2.7), (128, "sqrt", 3.6)]


def test_the_gain_of_other_changes_is_none_of_the_batch() -> None:
    beside = [a_trial(32, 2.0, amp="bf16"), a_trial(64, 5.0, amp="bf16")]
    assert told(beside) == [(64, "sqrt", 2.5)]
    assert told([*beside, a_trial(64, 1.8)]) == [(64, "sqrt", 1.8)]
    assert told(beside[1:]) == []


def test_a_confirmation_holds_what_a_sample_is_worth_and_does_not_count() -> None:
    assert told([a_trial(64, 1.2, stage="confirm")]) == []


def searched(objective: Any = "goodput", noise: NoiseScale | None = None) -> Batches:
    profile = a_profile(loader=a_loader(batch_size=32))
    settings = Settings(
        target=TargetRequest(kind="script", name="train.py"),
        knobs={"batch_size": None},
        objective=objective,
    )
    batches = Batches(settings, cast(Progress, None), noise=noise)
    batches.complete(Space(BASELINE, BASELINE, {"batch_size": [32, 64, 128]}, [], profile))
    batches.trials = [a_trial(64, 2.7), a_trial(128, 3.6)]
    return batches


def test_what_the_search_measured_is_told_and_not_measured_again() -> None:
    batches = searched(noise=NoiseScale(200.0, 190.0, 210.0))
    batches.propose(cast(Arena, None), BASELINE, math.inf)  # would fail if it measured
    known = batches.known()
    assert known is not None and known.fastest_ratio is not None
    assert known.fastest == 128 and known.fastest_ratio.estimate == pytest.approx(3.6)
    assert known.best_goodput == 128 and known.noise_scale is not None


def test_peaks_of_memory_are_no_throughput() -> None:
    known = searched("memory").known()
    assert known is not None and known.fastest is None


def test_beside_the_batch_that_was_taken_a_faster_one_is_a_proposal_by_goodput_alone() -> None:
    for objective, reasons in (("goodput", ["by goodput batch size 64 is better"]), ("throughput", [])):
        batches = searched(objective)
        batches.known()
        found = _proposals(Outcome(BASELINE.with_({"batch_size": 64})), batches)
        assert [each.to for each in found] == [128 for _ in reasons]
        assert all(reason in each.reason for each, reason in zip(found, reasons, strict=True))
