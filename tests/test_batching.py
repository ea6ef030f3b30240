"""Whether a larger batch becomes part of what is recommended."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from builders import a_loader, a_profile, an_optimizer

from advisor import batching
from advisor.batches import Batches
from advisor.batching import BatchAdvice, Batching, expected_s
from advisor.profiles.profile import RunFacts
from advisor.settings import Progress, Settings, TargetRequest
from advisor.tuners import gate
from advisor.tuners.duel import Arena
from advisor.tuners.gate import Learning
from advisor.tuners.goodput import NoiseScale
from advisor.tuners.knob import Value
from advisor.tuners.measure import Estimate
from advisor.tuners.proposals import Measured
from advisor.tuners.space import Space

LARGE_NOISE = NoiseScale(100_000.0, 50_000.0, 200_000.0)
SMALL_NOISE = NoiseScale(30.0, 20.0, 40.0)
PROFILE = a_profile(
    loader=a_loader(batch_size=32), optimizers=(an_optimizer(),), run=RunFacts(samples_per_step=32.0)
)


class Silent:
    """Takes every message."""

    def __getattr__(self, name: str) -> Any:
        return lambda *told: None


def measured(batch: int, ratio: float) -> Measured:
    centre = math.log(ratio)
    return Measured(batch, "sqrt", Estimate(centre, centre - 0.02, centre + 0.02, 0.99, 6, 2))


def a_space() -> Space:
    present: dict[str, Value] = {"batch_size": 32, "lr_scaling": "none"}
    return Space(present, present, {"batch_size": [32, 64, 128]}, [], PROFILE)


class Machine:
    """What would be measured: throughput, noise scale, and losses by batch size."""

    def __init__(self, noise: NoiseScale | None, worse: float = 1.0, same_up_to: int = 32) -> None:
        self.noise, self.worse, self.same_up_to = noise, worse, same_up_to
        self.ratios = {64: 1.8, 128: 3.0}
        self.step_s, self.quad_s, self.max_steps = 0.001, 0.02, None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(
            batching, "propose_batches", lambda *given: [measured(*each) for each in self.ratios.items()]
        )
        patch.setattr(batching, "measure_noise_scale", lambda *given, **more: self.noise)
        patch.setattr(gate, "learn", self.learn)

    def learn(self, arena: Any, config: Mapping[str, Value], steps: int) -> Learning:
        larger = int(config["batch_size"]) > self.same_up_to
        fall = [2.0 + math.exp(-index * int(config["batch_size"]) / 600) for index in range(steps)]
        return Learning(tuple(loss * (self.worse if larger else 1.0) for loss in fall), 1)


def advice(machine: Machine, patch: pytest.MonkeyPatch) -> BatchAdvice:
    machine.install(patch)
    looked = Batching(cast(Arena, machine), a_space(), PROFILE, 0.02, None, math.inf, lambda text: None)
    return looked.advise({"batch_size": 32, "lr_scaling": "none", "amp": "off"})


def test_a_batch_whose_samples_are_worth_as_much_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = advice(Machine(LARGE_NOISE), monkeypatch)
    assert found.chosen is not None and found.chosen.batch_size == 128
    assert found.goodput is not None and found.goodput.estimate == pytest.approx(3.0, rel=0.05)


def test_throughput_that_learns_nothing_more_stays_a_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(SMALL_NOISE)
    machine.ratios = {64: 1.3, 128: 1.6}
    found = advice(machine, monkeypatch)
    assert found.chosen is None and len(found.measured) == 2
    assert "worth" in found.reason


def test_a_loss_that_falls_behind_rules_the_batch_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = advice(Machine(LARGE_NOISE, worse=1.2), monkeypatch)
    assert found.chosen is None and found.match is not None and found.match.verdict == "worse"
    assert found.reason.startswith("with batch size 128, after 2048 samples the loss differs by +")


def test_a_smaller_one_that_keeps_up_is_chosen_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    found = advice(Machine(LARGE_NOISE, worse=1.2, same_up_to=64), monkeypatch)
    assert found.chosen is not None and found.chosen.batch_size == 64
    assert found.match is not None and found.match.verdict == "ok"
    assert found.reason.startswith("with batch size 128, ")


def test_losses_that_tell_nothing_are_not_asked_of_a_smaller_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(LARGE_NOISE)
    asked: list[int] = []

    def flat(arena: Any, config: Mapping[str, Value], steps: int) -> Learning:
        asked.append(int(config["batch_size"]))
        return Learning((2.0,) * steps, 1)

    machine.install(monkeypatch)
    monkeypatch.setattr(gate, "learn", flat)
    looked = Batching(cast(Arena, machine), a_space(), PROFILE, 0.02, None, math.inf, lambda text: None)
    assert looked.advise({"batch_size": 32}).chosen is None
    assert asked == [32, 128]


def test_a_gain_that_is_too_small_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(LARGE_NOISE)
    machine.ratios = {64: 1.2, 128: 1.25}
    machine.install(monkeypatch)
    for least, chosen in ((0.02, 128), (0.3, None)):
        looked = Batching(cast(Arena, machine), a_space(), PROFILE, least, None, math.inf, lambda text: None)
        found = looked.advise({"batch_size": 32}).chosen
        assert (found and found.batch_size) == chosen


def test_without_a_noise_scale_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = advice(Machine(None), monkeypatch)
    assert found.chosen is None and found.reason


def test_without_a_faster_batch_nothing_else_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(LARGE_NOISE)
    machine.ratios = {64: 0.9}
    machine.install(monkeypatch)
    monkeypatch.setattr(batching, "measure_noise_scale", None)  # would fail if called
    looked = Batching(cast(Arena, machine), a_space(), PROFILE, 0.02, None, math.inf, lambda text: None)
    assert looked.advise({"batch_size": 32}).chosen is None


def a_run(**options: Any) -> Batches:
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), **options)
    return Batches(settings, cast(Progress, Silent()))


@pytest.mark.parametrize(
    ("options", "searched", "added"),
    [
        ({}, False, True),
        ({"keep_batch": True}, False, False),
        ({"objective": "throughput"}, True, False),
        ({"objective": "memory"}, False, False),
        ({"knobs": {"batch_size": None}}, True, False),
        ({"knobs": {"amp": None}}, False, False),
        ({"fixed": {"num_threads": 1}}, False, False),
    ],
)
def test_where_the_batch_stands(options: dict[str, Any], searched: bool, added: bool) -> None:
    batches = a_run(**options)
    assert (batches.searched, batches.added) == (searched, added)


def test_a_batch_that_may_be_added_is_in_every_configuration() -> None:
    bare = Space({"amp": "off"}, {"amp": "off"}, {"amp": ["off", "bf16"]}, [], PROFILE)
    whole = a_run().complete(bare)
    assert whole.present == {"amp": "off", "batch_size": 32, "lr_scaling": "none"}
    assert whole.choices == bare.choices
    assert a_run(keep_batch=True).complete(bare).present == {"amp": "off"}


def test_what_a_sample_is_worth_needs_a_noise_scale() -> None:
    batches, present = a_run(), {"batch_size": 32}
    assert batches.worth({"batch_size": 64}, present) == 0.0
    batches = replace(batches, noise=NoiseScale(32.0, 16.0, 64.0))
    assert batches.worth({"batch_size": 64}, present) == pytest.approx(math.log(64 / 96))
    assert batches.sure_worth({"batch_size": 64}, present) < batches.worth({"batch_size": 64}, present)
    assert batches.worth(present, present) == 0.0


def test_the_time_that_it_takes_grows_with_the_step_and_the_start() -> None:
    machine = Machine(LARGE_NOISE)
    machine.quad_s = 0.5
    short = expected_s(cast(Arena, machine), 0.1)
    machine.step_s = 0.4
    assert expected_s(cast(Arena, machine), 0.1) > 10 * short
    assert expected_s(cast(Arena, machine), 5.0) > expected_s(cast(Arena, machine), 0.1) + 20
