"""Whether a batch that a search found becomes part of what is recommended."""

import math
from collections.abc import Sequence
from typing import Any, cast

import pytest
from result_builder import a_ratio
from test_larger_batch import KEPT, LARGE_NOISE, PROFILE, Machine, a_run, a_space, alone

from advisor.result.document import Trial
from advisor.stages import batch_size as batches_module
from advisor.stages.batch_size import Batches
from advisor.tuners.comparing.batches.goodput import NoiseScale
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.space.configuration import Configuration


def a_trial(batch: int, ratio: float) -> Trial:
    """One of a search that changed the batch alone."""
    return Trial(
        number=1,
        config={"batch_size": batch, "lr_scaling": "sqrt"},
        against_baseline=a_ratio(ratio, 0.98 * ratio, 1.02 * ratio),
    )


NOMINEE = Configuration({"batch_size": 128, "lr_scaling": "sqrt", "amp": "bf16"})


def proven(
    machine: Machine,
    patch: pytest.MonkeyPatch,
    noise: NoiseScale | None = LARGE_NOISE,
    trials: Sequence[Trial] = (),
    **options: Any,
) -> tuple[Batches, Configuration]:
    """What becomes of a nominee with four times the batch, of a search that had it among its knobs."""
    machine.install(patch)
    run = a_run(**{"knobs": {"batch_size": None, "amp": None}, **options})
    patch.setattr(
        batches_module, "measure_noise_scale", lambda *given, say, **more: noise or say("is clipped")
    )
    run.complete(a_space())
    run.trials = trials
    run.learn_worth(cast(Arena, machine), a_space(), PROFILE, math.inf)
    return run, run.extend(cast(Arena, machine), PROFILE, NOMINEE, math.inf, 1.0, alone)


def test_a_batch_that_a_search_by_goodput_found_must_learn_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    run, kept = proven(Machine(LARGE_NOISE), monkeypatch)
    assert kept == NOMINEE and not run.advice.reason
    run, kept = proven(Machine(LARGE_NOISE, worse=1.2), monkeypatch)
    assert kept == KEPT and run.advice.reason.startswith("with batch size 128, after")


def test_of_those_that_a_search_tried_a_smaller_one_that_gains_and_learns_as_much_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(LARGE_NOISE, worse=1.2, same_up_to=64)
    trials = [a_trial(64, 1.8), a_trial(128, 3.0)]
    run, kept = proven(machine, monkeypatch, trials=trials)
    assert kept == {**NOMINEE, "batch_size": 64}
    assert run.advice.refused == 128 and run.advice.reason.startswith("with batch size 128, after")
    run, kept = proven(machine, monkeypatch, trials=[a_trial(64, 1.01), a_trial(128, 3.0)])
    assert kept == KEPT


def test_a_batch_that_a_search_found_is_not_recommended_without_a_noise_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, kept = proven(Machine(None), monkeypatch, noise=None)
    assert kept == KEPT and run.advice.reason == "is clipped"


def test_a_search_by_throughput_asks_for_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    run, kept = proven(Machine(None, worse=1.2), monkeypatch, noise=None, objective="throughput")
    assert kept == NOMINEE and not run.advice.reason


def test_a_smaller_batch_needs_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = proven(Machine(LARGE_NOISE, worse=1.2), monkeypatch)
    smaller = NOMINEE.with_({"batch_size": 16})
    assert run.extend(cast(Arena, Machine(None)), PROFILE, smaller, math.inf, 1.0, alone) == smaller
