"""Weights moved by a few roundings show how far rounding grows in a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from advisor.profiles.events import Run
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.roundings import NUDGES, Nudged
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.numerics.nudge import NAME, ROUNDINGS, Nudge
from advisor.tuners.trial.spec import Target

STEPS = 60
RATE = 0.9  # of learning: high enough to amplify
AMPLIFYING = """
import torch
from torch import nn
from advisor.workloads.workload import Workload

def network():
    sizes = [3] + 12 * [8]
    layers = [
        layer for before, after in zip(sizes, sizes[1:])
        for layer in (nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.Tanh())
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))

def data():
    return torch.utils.data.TensorDataset(torch.randn(256, 3, 12, 12), torch.randint(4, (256,)))

workload = Workload(
    model=network,
    dataset=data,
    loss=lambda scores, labels: {scale} * nn.functional.cross_entropy(scores, labels),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr={rate}, momentum=0.9),
    batch_size=16,
)
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def moved(model: nn.Module, seed: int = 1) -> dict[str, torch.Tensor]:
    """How far each parameter was moved, relatively."""
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    run = Run({NAME: Nudge()}, {}, Refused)
    run.configure({NAME: seed})
    run.model(model)
    assert run.applied == {NAME}
    return {name: (value.detach() / before[name] - 1) for name, value in model.named_parameters()}


def test_every_weight_is_moved_by_a_few_roundings_in_either_direction() -> None:
    far = moved(nn.Linear(40, 30, dtype=torch.float64))
    for relative in far.values():
        expected = torch.full_like(relative, ROUNDINGS * torch.finfo(torch.float64).eps)
        torch.testing.assert_close(relative.abs(), expected, rtol=0.2, atol=0)
        assert relative.min() < 0 < relative.max()


def test_the_seed_gives_the_directions_and_the_random_state_of_the_program_stays() -> None:
    torch.manual_seed(0)
    model = nn.Linear(40, 30)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = []
    for seed in (1, 1, 2):
        model.load_state_dict(kept)
        found.append(moved(model, seed)["weight"])
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_weights_of_16_bits_stay() -> None:
    assert not moved(nn.Linear(40, 30, dtype=torch.bfloat16))["weight"].any()


@contextmanager
def an_arena(folder: Path, scale: float = 1.0, rate: float = RATE) -> Iterator[Arena]:
    folder.mkdir()
    file = folder / "train.py"
    file.write_text(AMPLIFYING.format(scale=scale, rate=rate))
    (folder / "study").mkdir()
    with Launcher(Target("workload", str(file), cwd=str(folder)), folder / "study", device="cpu") as launcher:
        yield Arena(launcher, KNOBS, {"channels_last": "off"})


def first(count: int, learned: gate.Learning) -> tuple[float, ...]:
    return learned.losses[:count]


@pytest.mark.long
@pytest.mark.usefixtures("warm_trials")
def test_another_layout_is_not_accused_where_rounding_grows_and_mistakes_still_are(tmp_path: Path) -> None:
    base = {"channels_last": "off"}
    with an_arena(tmp_path / "right") as arena:
        baseline, other = gate.learn(arena, base, STEPS), gate.learn(arena, base, STEPS, seed_offset=1)
        layout = gate.learn(arena, {"channels_last": "on"}, STEPS)
        nudges = [gate.learn(arena, base, STEPS, nudge=seed) for seed in range(1, NUDGES + 1)]
    mistakes: list[gate.Learning] = []
    for changed in ({"scale": 1.01}, {"rate": 1.01 * RATE}):
        with an_arena(tmp_path / "-".join(changed), **changed) as wrong:
            mistakes.append(gate.learn(wrong, base, STEPS))

    apart = [abs(a / b - 1) for a, b in zip(layout.losses, baseline.losses, strict=True)]
    beyond = 2 * gate.REASSOCIATION
    grown = next(n for n in range(1, STEPS + 1) if sum(apart[:n]) / n > beyond)  # rounding has grown so far

    def verdicts(count: int) -> list[str]:
        """Of the layout without and with nudged runs, and of the mistakes, after so many steps."""
        losses = first(count, baseline)
        known = gate.Reference(losses, losses, (first(count, other),))
        nudged = Nudged(lambda seed: first(count, nudges[seed - 1]))
        return [
            gate.judge(
                known, first(count, each), Semantics.ROUNDING, own_draws=False, nudged=yardstick
            ).verdict
            for each, yardstick in [(layout, None), (layout, nudged), *((each, nudged) for each in mistakes)]
        ]

    for count in (grown, STEPS):
        assert verdicts(count) == ["drifts", "within_noise", "drifts", "drifts"]
