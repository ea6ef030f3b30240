"""Numbers compared in one process: verdicts as from fresh ones, and what cannot be repeated is told."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from looping import Looping, Program, Wrong, learned_anew, training
from torch import nn

from advisor.tuners.comparing import gate
from advisor.tuners.comparing.roundings import Nudged
from advisor.tuners.comparing.same_process import CannotRepeat, SameProcess, switchable
from advisor.tuners.knob import Refused, Semantics, Value
from advisor.tuners.knobs import KNOBS
from benchmarks.wrong_candidate import PATCHED

STEPS = 10
PRESENT: dict[str, Value] = {
    "set_to_none": "on", "mkldnn": "on", "amp": "off", "optimizer_implementation": "default", "wrong": "none",
}  # fmt: skip


@pytest.fixture(autouse=True)
def mistakes_end() -> Iterator[None]:
    """What a mistake replaces is in its place again after the test."""
    right = [(owner, name, getattr(owner, name)) for owner, name in PATCHED]
    yield
    for owner, name, function in right:
        setattr(owner, name, function)


class Reader(nn.Module):
    """An LSTM whose last output is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(6, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.cells(inputs)[0][:, -1])
        return scores


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))


def conv() -> nn.Module:
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    model: nn.Module = nn.Sequential(*layers, nn.Linear(8, 4))
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def amsgrad(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)


def falling(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.9)


PROGRAMS: dict[str, Callable[[int], Program]] = {
    "mlp with dropout": lambda seed: training(mlp, sgd, (6,), seed=seed),
    "lstm": lambda seed: training(Reader, sgd, (5, 6), seed=seed),
    "conv": lambda seed: training(conv, sgd, (3, 8, 8), seed=seed),
    "amsgrad": lambda seed: training(mlp, amsgrad, (6,), seed=seed, schedule=falling),
}


@contextmanager
def looping(program: Program) -> Iterator[Any]:
    session = Looping(program, PRESENT)
    try:
        yield session
    finally:
        session.stop()


Candidates = list[tuple[dict[str, Value], Semantics, str]]
Learn = Callable[[Mapping[str, Value]], gate.Learning]


def judged(
    candidates: Candidates, reference: gate.Reference, nudged: Nudged, learn: Learn
) -> list[tuple[str, str]]:
    """What is said of each candidate; ``right`` where it does not matter how far roundings show."""
    said: list[tuple[str, str]] = []
    for changed, semantics, wanted in candidates:
        learned = learn({**PRESENT, **changed})
        verdict = gate.judge(
            reference,
            learned.losses,
            semantics,
            own_draws=False,
            norms=learned.grad_norms,
            nudged=nudged,
        ).verdict
        right = wanted == "right" and verdict in ("identical", "within_noise")
        said.append((str(changed), "right" if right else verdict))
    return said


def judged_anew(make: Callable[[int], Program], candidates: Candidates) -> list[tuple[str, str]]:
    """The same by programs that start anew for each run."""

    def anew(config: Mapping[str, Value], seed: int = 0, nudge_seed: int = 0) -> gate.Learning:
        return learned_anew(make(seed), PRESENT, config, STEPS, nudge_seed=nudge_seed)

    runs = [anew(PRESENT), anew(PRESENT), *(anew(PRESENT, seed=seed) for seed in gate.SEEDS)]
    first, again, *others = (run.losses for run in runs)
    reference = gate.Reference(first, again, tuple(others), norms=tuple(run.grad_norms for run in runs))
    nudged = Nudged(lambda number: anew(PRESENT, nudge_seed=number).losses)
    return judged(candidates, reference, nudged, anew)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_process_and_fresh_ones_come_to_the_same_verdicts(name: str) -> None:
    candidates: Candidates = [
        ({"set_to_none": "off"}, Semantics.EXACT, "identical"),
        ({"optimizer_implementation": "fused"}, Semantics.ROUNDING, "right"),
        ({"wrong": "scaled"}, Semantics.ROUNDING, "drifts"),
        ({"wrong": "overflow"}, Semantics.ROUNDING, "drifts"),
        ({"wrong": "faster"}, Semantics.ROUNDING, "drifts"),
    ]
    if name != "lstm":  # of which there is no bf16 on every CPU
        candidates.append(({"amp": "bf16"}, Semantics.PRECISION, "within_noise"))
    if name in ("mlp with dropout", "amsgrad"):
        candidates.append(({"wrong": "no_dropout"}, Semantics.ROUNDING, "drifts"))
    expected = [(str(changed), wanted) for changed, _, wanted in candidates]
    assert judged_anew(PROGRAMS[name], candidates) == expected
    with looping(PROGRAMS[name](0)) as session:
        process = SameProcess(session, PRESENT, STEPS)
        reference, nudged = process.reference(), Nudged(process.nudged)
        assert judged(candidates, reference, nudged, process.learn) == expected
        assert process.still_repeats()


def test_the_program_goes_on_as_if_nothing_had_happened() -> None:
    """Dropout, shuffling, an average of the weights, a schedule: later steps are those without a check."""
    seen: dict[bool, list[float]] = {True: [], False: []}
    for checked in (False, True):
        losses: list[float] = []
        shadow: list[torch.Tensor] = []

        def averaged(step: int, model: nn.Module, losses: list[float] = losses, shadow: Any = shadow) -> None:
            parameters = [each.detach() for each in model.parameters()]
            if not shadow:
                shadow.extend(each.clone() for each in parameters)
            for mean, now in zip(shadow, parameters, strict=True):
                mean.lerp_(now, 0.1)
            losses.append(float(sum(mean.sum() for mean in shadow)))

        program = training(mlp, amsgrad, (6,), schedule=falling, each=averaged, rows=400)
        with looping(program) as session:
            session.go(2)
            if checked:
                process = SameProcess(session, PRESENT, STEPS)
                process.reference()
                process.learn({**PRESENT, "set_to_none": "off"})
                process.release()
            else:
                session.go(1)
            session.go(30)
        seen[checked] = losses
    assert len(seen[True]) > len(seen[False]) == 33
    assert seen[True][-30:] == seen[False][-30:]


def test_a_loop_with_its_own_count_of_steps_in_its_learning_rate_is_not_compared_in_one_process() -> None:
    optimizers: list[torch.optim.Optimizer] = []

    def kept(model: nn.Module) -> torch.optim.Optimizer:
        optimizers.append(sgd(model))
        return optimizers[-1]

    def falls(step: int, model: nn.Module) -> None:
        optimizers[-1].param_groups[0]["lr"] = 0.1 / (1 + step)

    with looping(training(mlp, kept, (6,), each=falls)) as session, pytest.raises(CannotRepeat) as refused:
        SameProcess(session, PRESENT, STEPS).reference()
    assert "does not repeat itself" in str(refused.value) and "learning rates" in str(refused.value)


def adversarial() -> None:
    """Two updates in turn; the second one goes back through what was made before the first."""
    torch.manual_seed(0)
    maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    judging, making = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (judge, maker))
    for _ in range(1000):
        made = maker(torch.randn(8, 4)).relu()
        judge.zero_grad()
        judge(made.detach()).square().mean().backward()
        judging.step()
        maker.zero_grad()
        judge(made).square().mean().backward()
        making.step()


def test_a_loop_that_goes_back_through_what_it_made_before_its_border_is_not_touched() -> None:
    with looping(adversarial) as session:
        with pytest.raises(CannotRepeat, match="a backward is still to come"):
            SameProcess(session, PRESENT, STEPS).reference()
        session.go(4)


def sliced() -> None:
    """Batches are slices of a tensor, one after the other, which no loader hands out."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(8000, 6), torch.randint(0, 4, (8000,))
    model = mlp()
    optimizer = sgd(model)
    for at in range(0, len(inputs), 8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[at : at + 8]), targets[at : at + 8]).backward()
        optimizer.step()


def test_a_loop_that_goes_on_to_other_batches_is_not_compared_in_one_process() -> None:
    with looping(sliced) as session, pytest.raises(CannotRepeat, match="its first loss differs by"):
        SameProcess(session, PRESENT, STEPS).reference()


def test_where_a_change_cannot_be_taken_back_nothing_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = Wrong.process

    def only_there(knob: Wrong, value: str) -> None:
        if value == "none":
            raise Refused("it stays")
        change(knob, value)

    with looping(training(mlp, sgd, (6,))) as session:
        process = SameProcess(session, PRESENT, STEPS)
        process.reference()
        monkeypatch.setattr(Wrong, "process", only_there)
        with pytest.raises(CannotRepeat, match="wrong cannot be taken back: it stays"):
            process.learn({**PRESENT, "wrong": "scaled"})
        monkeypatch.undo()


def test_a_loop_that_evaluates_within_every_window_is_not_compared_in_one_process() -> None:
    def evaluates(step: int, model: nn.Module) -> None:
        if step % 4 == 0:
            model.eval()
            with torch.no_grad():
                model(torch.zeros(1, 6))
            model.train()

    program = training(mlp, sgd, (6,), each=evaluates)
    with looping(program) as session, pytest.raises(CannotRepeat, match="evaluates within so few steps"):
        SameProcess(session, PRESENT, STEPS).reference()


def test_without_room_for_a_copy_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.tuners.trial.numerics.relearning.free_host_bytes", lambda: 1000)
    with looping(training(mlp, sgd, (6,))) as session, pytest.raises(CannotRepeat, match="MiB of memory"):
        SameProcess(session, PRESENT, STEPS).reference()


def test_what_is_kept_is_parameters_gradients_and_optimizer_state() -> None:
    with looping(training(mlp, amsgrad, (6,))) as session:
        process = SameProcess(session, PRESENT, STEPS)
        process.reference()
        parameters = sum(each.nbytes for each in mlp().parameters())
        counts = 4 * 4  # one step count of 4 bytes for each of the parameters
        assert process.host_bytes >= 5 * parameters + counts


def test_only_what_can_be_switched_between_steps_is_compared_in_one_process() -> None:
    base: dict[str, Value] = {"mkldnn": "on", "malloc": "default", "channels_last": "off"}
    assert switchable(KNOBS, base, {**base, "mkldnn": "off"})
    assert not switchable(KNOBS, base, {**base, "mkldnn": "off", "channels_last": "on"})
    assert not switchable(KNOBS, base, {**base, "program": "patched"})


def living_bytes() -> int:
    """Of the memory of all tensors that live, each piece once."""
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    pieces = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
    return sum(pieces.values())


def test_the_host_holds_the_state_once_however_often_it_is_run_from() -> None:
    def wide() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 256), nn.Linear(256, 256), nn.Linear(256, 4))

    with looping(training(wide, amsgrad, (6,))) as session:
        session.go(2)
        before = living_bytes()
        process = SameProcess(session, PRESENT, STEPS)
        process.reference()
        for _ in range(3):
            process.learn(PRESENT)
        assert process.host_bytes > 5 * 256 * 256 * 4
        kept = process.host_bytes
        assert living_bytes() - before < 1.3 * kept
        process.release()
        session.go(2)
        assert living_bytes() - before < 0.3 * kept
