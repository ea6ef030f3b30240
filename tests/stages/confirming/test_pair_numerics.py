"""Numbers judged by the first steps of the pairs that confirm: on real programs, and by whole replays."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from looping import Program, learned_anew, training
from replayed_program import Effect, where
from replayed_program import Program as OnPaper
from replaying import Replay, replayed
from torch import nn

from advisor.stages.confirming.pair_numerics import InDoubt, Kind, PairNumerics
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.ways import BATON
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.trial.messages import TrialOutcome
from benchmarks.wrong_candidate import PATCHED

STEPS = 12
PRESENT: dict[str, Value] = {"set_to_none": "on", "optimizer_implementation": "default", "wrong": "none"}
KINDS = [(Semantics.EXACT, False), (Semantics.ROUNDING, False), (Semantics.PRECISION, False)]


@pytest.fixture(autouse=True)
def mistakes_end() -> Iterator[None]:
    """What a mistake replaces is in its place again after the test."""
    right = [(owner, name, getattr(owner, name)) for owner, name in PATCHED]
    yield
    for owner, name, function in right:
        setattr(owner, name, function)


def program(seed: int) -> Program:
    """A network with dropout."""

    def layers() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))

    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=0.01)

    return training(layers, adam, (6,), seed=seed)


def process(pairs: PairNumerics, pair: int, config: Mapping[str, Value]) -> TrialOutcome:
    """What a process of a pair leaves, started as the pair asks for."""
    options = pairs.options(pair, config)
    learned = learned_anew(
        program(options.get("seed_offset", 0)),
        PRESENT,
        config,
        STEPS,
        nudge_seed=options.get("nudge", 0),
    )
    return TrialOutcome("stopped", losses=learned.losses, grad_norms=learned.grad_norms[: options["norms"]])


def pairs_of(
    semantics: Semantics, changed: Mapping[str, Value], *, draws: bool = False, at_first: Any = None
) -> PairNumerics:
    """Both pairs of a candidate, measured."""
    first = learned_anew(program(0), PRESENT, PRESENT, STEPS).losses if at_first is None else at_first
    pairs = PairNumerics(first, PRESENT, Kind(semantics, draws))
    for pair in range(2):
        outcomes = [process(pairs, pair, config) for config in (PRESENT, {**PRESENT, **changed})]
        complete = pairs.add(Duel(BATON, [0.0], first_outcome=outcomes[0], second_outcome=outcomes[1]))
        assert complete is (pair == 1)
    return pairs


@pytest.mark.parametrize(("semantics", "draws"), [*KINDS, (Semantics.EXACT, True)])
def test_what_changes_nothing_is_identical(semantics: Semantics, draws: bool) -> None:
    verdict, reference = pairs_of(semantics, {"set_to_none": "off"}, draws=draws).judged()
    assert verdict.verdict == "identical" and len(reference.losses) == STEPS
    assert len(reference.seeds) == (0 if semantics is Semantics.EXACT and not draws else 1)


def test_what_reorders_roundings_is_right() -> None:
    changed: dict[str, Value] = {"optimizer_implementation": "fused"}
    assert pairs_of(Semantics.ROUNDING, changed).judged()[0].verdict in ("identical", "within_noise")


@pytest.mark.parametrize(
    ("mistake", "semantics"),
    [
        (mistake, semantics)
        for mistake in ("scaled", "overflow", "no_dropout", "faster")
        for semantics in (Semantics.EXACT, Semantics.ROUNDING, Semantics.PRECISION)
        if (mistake, semantics) != ("faster", Semantics.PRECISION)  # fewer bits may change as much
    ],
)
def test_a_mistake_is_left_to_the_gate(mistake: str, semantics: Semantics) -> None:
    with pytest.raises(InDoubt):
        pairs_of(semantics, {"wrong": mistake}).judged()


def test_a_program_that_does_not_repeat_itself_is_left_to_the_gate() -> None:
    other = learned_anew(program(7), PRESENT, PRESENT, STEPS).losses
    for semantics, draws in KINDS:
        with pytest.raises(InDoubt, match="started twice from one seed"):
            pairs_of(semantics, {"set_to_none": "off"}, draws=draws, at_first=other).judged()


def test_processes_of_too_few_steps_are_left_to_the_gate() -> None:
    pairs = pairs_of(Semantics.EXACT, {"set_to_none": "off"})
    pairs._pairs[0] = (pairs._pairs[0][0], TrialOutcome("stopped", losses=(1.0,)))
    with pytest.raises(InDoubt, match="too few steps"):
        pairs.judged()


def test_a_loss_that_is_not_finite_in_the_second_pair_is_left_to_the_gate() -> None:
    pairs = pairs_of(Semantics.ROUNDING, {"set_to_none": "off"})
    base, candidate = pairs._pairs[1]
    losses = (*candidate.losses[:-1], float("nan"))
    pairs._pairs[1] = (base, TrialOutcome("stopped", losses=losses, grad_norms=candidate.grad_norms))
    with pytest.raises(InDoubt, match="NaN"):
        pairs.judged()


def test_of_a_process_that_goes_on_its_losses_so_far_are_taken() -> None:
    pairs = pairs_of(Semantics.EXACT, {"set_to_none": "off"})
    base, candidate = pairs._pairs.pop()
    losses = candidate.losses
    held: Any = SimpleNamespace(facts=lambda: SimpleNamespace(losses=losses))
    assert pairs.add(Duel(BATON, [0.0], first_outcome=base), held)
    assert pairs.judged()[0].verdict == "identical"
    pairs._pairs.pop()
    assert pairs.add(Duel(BATON, [0.0], first_outcome=base))
    with pytest.raises(InDoubt, match="too few steps"):
        pairs.judged()


LAYOUT: dict[str, list[Value] | None] = {"channels_last": ["off", "on"]}
FASTER = Effect(where(channels_last="on"), step=1 / 1.3)


def tuned(folder: Path, *effects: Effect, **program: Any) -> Replay:
    return replayed(OnPaper(effects, without={}, **program), folder, knobs=LAYOUT, budget_s=300.0)


@pytest.mark.usefixtures("own_folder")
def test_a_restart_change_of_a_third_takes_eight_launches_to_its_verdict(tmp_path: Path) -> None:
    """One unchanged, a trial of two, two pairs, and one that lasts; before, the numbers took six more."""
    run = tuned(tmp_path, FASTER)
    found = run.result.recommendation
    assert found.verdict == "change" and found.numerics == "identical"
    assert run.launcher.launches <= 8 + 1, "the last one looks at what has become of the program"
    assert any("first steps of these processes" in line for line in run.said)


@pytest.mark.usefixtures("own_folder")
def test_one_that_drifts_is_not_recommended(tmp_path: Path) -> None:
    run = tuned(tmp_path, replace(FASTER, loss=0.1))
    assert run.result.recommendation.verdict == "keep"
    assert "the numbers drift" in run.result.recommendation.reason
    assert any("in processes of their own" in line for line in run.said)
    (confirm,) = [trial for trial in run.result.trials if trial.stage == "confirm"]
    assert (confirm.state, confirm.cause) == ("failed", "numerics_mismatch")


FUSED, WORKERS = {"optimizer_implementation": "fused"}, {"num_workers": 2}
CACHED = {"in_memory_cache": "memory"}
IN_FRESH_PROCESSES = re.compile(r"comparing the numbers of the first \d+ steps")
IN_ONE_PROCESS = re.compile(r"comparing the numbers of \d+ steps in one process")


def of_two_kinds(
    folder: Path, *, fused: float = 0.0, other: float = 0.0, batches: dict[str, Any] = WORKERS
) -> Replay:
    """A fused optimizer and other ``batches``, each half as fast again, and how far each falsifies losses."""
    effects = [
        Effect(where(**FUSED), step=1 / 1.5, loss=fused),
        Effect(where(**batches), step=1 / 1.5, loss=other),
    ]
    knobs: dict[str, list[Value] | None] = {
        "optimizer_implementation": ["default", "fused"],
        "num_workers": [0, 2],
        "in_memory_cache": ["off", "memory"],
    }
    knobs = {name: values for name, values in knobs.items() if name in FUSED or name in batches}
    return replayed(OnPaper(effects, startup_s=10.0), folder, knobs=knobs, budget_s=600.0)


def changed_by(run: Replay) -> set[str]:
    return {change.knob for change in run.result.recommendation.changes}


@pytest.mark.usefixtures("own_folder")
def test_beside_workers_what_is_live_is_judged_in_one_process_and_pairs_tell_the_whole(
    tmp_path: Path,
) -> None:
    run = of_two_kinds(tmp_path)
    assert run.result.recommendation.verdict == "change" and changed_by(run) == {*FUSED, *WORKERS}
    assert run.verdict()[1] <= 5, "one unchanged, two pairs"
    assert any(map(IN_ONE_PROCESS.fullmatch, run.said))
    assert any("first steps of these processes" in line for line in run.said)


@pytest.mark.usefixtures("own_folder")
def test_items_that_are_kept_are_judged_so_beside_what_is_live_as_well(tmp_path: Path) -> None:
    run = of_two_kinds(tmp_path, batches=CACHED)
    assert run.result.recommendation.verdict == "change" and changed_by(run) == {*FUSED, *CACHED}
    assert any(map(IN_ONE_PROCESS.fullmatch, run.said))
    assert any("first steps of these processes" in line for line in run.said)
    assert not any(map(IN_FRESH_PROCESSES.fullmatch, run.said))


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("batches", [WORKERS, CACHED], ids=lambda each: next(iter(each)))
@pytest.mark.parametrize(
    ("wrong", "kept"), [({"fused": 1e-4}, "other"), ({"fused": 0.2}, "other"), ({"other": 0.2}, "fused")]
)
def test_of_two_kinds_the_one_that_drifts_is_left_out(
    wrong: dict[str, float], kept: str, batches: dict[str, Any], tmp_path: Path
) -> None:
    run = of_two_kinds(tmp_path, **wrong, batches=batches)
    left = FUSED if kept == "fused" else batches
    assert run.result.recommendation.verdict == "change" and changed_by(run) == set(left)
    assert run.result.recommendation.numerics == "identical"
