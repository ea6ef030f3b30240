"""Whether a larger batch becomes part of what is recommended."""

import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import a_loader, a_profile, an_optimizer

from advisor.base.settings import Progress, Settings, TargetRequest
from advisor.profiles.facts.profile import RunFacts
from advisor.stages import batch_size as batches_module
from advisor.stages import larger_batch
from advisor.stages.assemble import _proposals
from advisor.stages.batch_size import Batches
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.larger_batch import BatchAdvice, Batching, expected_s
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.batches.batch_throughput import Measured
from advisor.tuners.comparing.batches.goodput import NoiseScale
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.gate import Learning
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

LARGE_NOISE = NoiseScale(100_000.0, 50_000.0, 200_000.0)
SMALL_NOISE = NoiseScale(30.0, 20.0, 40.0)
PROFILE = a_profile(
    loader=a_loader(batch_size=32), optimizers=(an_optimizer(),), run=RunFacts(samples_per_step=32.0)
)


class Silent:
    """Takes every message."""

    def __getattr__(self, name: str) -> Any:
        return lambda *told: None


OFF = Configuration({"amp": "off"})


def measured(batch: int, ratio: float) -> Measured:
    centre = math.log(ratio)
    return Measured(batch, "sqrt", Estimate(centre, centre - 0.02, centre + 0.02, 0.99, 6, 2))


def a_space() -> Space:
    present = Configuration({"batch_size": 32, "lr_scaling": "none"})
    return Space(present, present, {"batch_size": [32, 64, 128]}, [], PROFILE)


class Machine:
    """What would be measured: throughput, noise scale, and losses by batch size."""

    def __init__(self, noise: NoiseScale | None, worse: float = 1.0, same_up_to: int = 32) -> None:
        self.noise, self.worse, self.same_up_to = noise, worse, same_up_to
        self.ratios = {64: 1.8, 128: 3.0}
        self.step_s, self.quad_s, self.max_steps = 0.001, 0.02, None
        self.clock = lambda: 0.0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(larger_batch, "propose_batches", lambda *given: self.measured())
        patch.setattr(larger_batch, "measure_noise_scale", lambda *given, **more: self.noise)
        patch.setattr(gate, "learn", self.learn)

    def measured(self) -> list[Measured]:
        return [measured(*each) for each in self.ratios.items()]

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
    assert found.reason.startswith("with batch size 128, after 131072 samples the loss differs by +")


def test_a_smaller_one_that_keeps_up_is_chosen_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    found = advice(Machine(LARGE_NOISE, worse=1.2, same_up_to=64), monkeypatch)
    assert found.chosen is not None and found.chosen.batch_size == 64
    assert found.match is not None and found.match.verdict == "ok"
    assert found.reason.startswith("with batch size 128, ")


def learning(machine: Machine, patch: pytest.MonkeyPatch, losses: Any, deadline: float = math.inf) -> Any:
    """The advice where ``losses`` makes them from the batch size and the steps; and what was asked."""
    asked: list[tuple[int, int]] = []

    def learn(arena: Any, config: Mapping[str, Value], steps: int) -> Learning:
        asked.append((int(config["batch_size"]), steps))
        return Learning(tuple(losses(int(config["batch_size"]), steps)), 1)

    machine.install(patch)
    patch.setattr(gate, "learn", learn)
    looked = Batching(cast(Arena, machine), a_space(), PROFILE, 0.02, None, deadline, lambda text: None)
    return looked.advise({"batch_size": 32}), asked


LOOKS = [[(32, 4 * points), (128, points)] for points in (16, 64, 256, 1024)]
SMALLER = [(32, 2048), (64, 1024)]


def test_losses_that_tell_nothing_speak_for_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = learning(Machine(LARGE_NOISE), monkeypatch, lambda batch, steps: [2.0] * steps)
    assert found.chosen is None and found.reason.startswith(
        "with batch size 128, the baseline's loss fell by 0.0%"
    )
    assert asked == LOOKS[3] + SMALLER


def test_where_time_is_short_a_loss_that_falls_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(batch: int, steps: int) -> list[float]:
        return [1.0 + math.exp(-index * batch / 30_000) for index in range(steps)]

    machine = Machine(LARGE_NOISE)
    machine.step_s = 0.1  # 8, 32, 128 and 512 s
    found, asked = learning(machine, monkeypatch, late, 60)
    assert found.chosen is not None and found.chosen.batch_size == 128
    assert asked == LOOKS[0] + LOOKS[1]
    found, asked = learning(machine, monkeypatch, late, 10)
    assert found.chosen is None and asked == [*LOOKS[0], (32, 32), (64, 16)]
    found, asked = learning(machine, monkeypatch, late, 4)
    assert found.chosen is None and asked == [] and "no time was left" in found.reason
    found, asked = learning(machine, monkeypatch, late, 3600)
    assert found.chosen is not None and asked == LOOKS[2]
    found, asked = learning(machine, monkeypatch, late, 36000)
    assert found.chosen is not None and asked == LOOKS[3]


def test_what_diverges_only_later_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(batch: int, steps: int) -> list[float]:
        fall = [1.0 + math.exp(-index * batch / 3_000) for index in range(steps)]
        return [loss + (batch > 32 and index * batch > 10_000) * 0.5 for index, loss in enumerate(fall)]

    found, _ = learning(Machine(LARGE_NOISE), monkeypatch, later)
    assert found.chosen is None and found.match is not None and found.match.verdict == "worse"


def test_losses_of_which_more_tell_no_more_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(LARGE_NOISE)
    machine.step_s = 0.1
    negative = learning(machine, monkeypatch, lambda batch, steps: [-1.0] * steps, 60)
    assert negative[0].chosen is None and "not positive" in negative[0].reason
    assert negative[1] == LOOKS[0]


def test_an_end_that_is_not_known_is_told_as_the_lower_one() -> None:
    run = a_run()
    run.complete(Space(OFF, OFF, {"amp": ["off", "bf16"]}, [], PROFILE))
    for noise, told in (
        (NoiseScale(200, 100, 400), (100, None)),
        (NoiseScale(200, 100, math.inf), (None, 100)),
    ):
        known = replace(run, noise=noise).known()
        assert known is not None
        low = None if known.noise_scale is None else known.noise_scale.low
        assert (low, known.noise_scale_at_least) == told


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
    monkeypatch.setattr(larger_batch, "measure_noise_scale", None)  # would fail if called
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
        ({"fixed": {"num_threads": 1}}, False, True),
        ({"fixed": {"batch_size": 64}}, False, False),
        ({"fixed": {"accumulation": 2}}, False, False),
        ({"fixed": {"strategy": "ddp"}}, False, False),
    ],
)
def test_where_the_batch_stands(options: dict[str, Any], searched: bool, added: bool) -> None:
    batches = a_run(**options)
    assert (batches.searched, batches.added) == (searched, added)


def test_a_batch_that_may_be_added_is_in_every_configuration() -> None:
    bare = Space(OFF, OFF, {"amp": ["off", "bf16"]}, [], PROFILE)
    whole = a_run().complete(bare)
    assert whole.present == {"amp": "off", "batch_size": 32, "lr_scaling": "none"}
    assert whole.choices == bare.choices
    assert a_run(keep_batch=True).complete(bare).present == {"amp": "off"}


def test_what_is_fixed_holds_beside_a_larger_batch_too() -> None:
    fixed: dict[str, Value] = {"num_threads": 1}
    bare = Space(OFF.with_(fixed), OFF, {"amp": ["off", "bf16"]}, [], PROFILE)
    run = a_run(fixed=fixed)
    assert run.complete(bare).present == {
        "amp": "off",
        "num_threads": 1,
        "batch_size": 32,
        "lr_scaling": "none",
    }
    assert run._wide is not None and run._wide.present["num_threads"] == 1
    assert "num_threads" not in run._wide.choices


def test_a_fixed_knob_that_decides_the_batch_is_told_as_the_reason() -> None:
    fixed: dict[str, Value] = {"accumulation": 2}
    bare = Space(OFF.with_(fixed), OFF, {"amp": ["off", "bf16"]}, [], PROFILE)
    whole = a_run(fixed=fixed).complete(bare)
    assert whole.present == bare.present
    assert [(entry.knob, entry.reason) for entry in whole.not_tried] == [
        ("batch_size", "accumulation is fixed, and the batch goes with it")
    ]


KEPT = Configuration({"batch_size": 32, "lr_scaling": "none", "amp": "bf16"})


def alone() -> None:
    """Nothing else of the program runs."""


def without_time(machine: Machine, patch: pytest.MonkeyPatch) -> Batches:
    """A run that has no time for goodput, and some later."""
    machine.install(patch)
    patch.setattr(batches_module, "propose_batches", lambda *given: machine.measured())
    run = a_run()
    run.complete(Space(OFF, OFF, {"amp": ["off", "bf16"]}, [], PROFILE))
    assert run.extend(cast(Arena, machine), PROFILE, KEPT, -1.0, 1.0, alone) == KEPT
    assert run.advice.reason == "no time was left to judge it by goodput; give a longer --budget"
    run.propose(cast(Arena, machine), KEPT, math.inf)
    return run


def test_that_no_time_was_left_for_goodput_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = without_time(Machine(LARGE_NOISE), monkeypatch)
    assert run.is_unjudged
    (found,) = _proposals(Outcome(KEPT), run)
    assert "no time was left to judge it by goodput; give a longer --budget" in found.reason
    slower = Machine(LARGE_NOISE)
    slower.ratios = {64: 0.9}
    assert not without_time(slower, monkeypatch).is_unjudged


def test_what_a_sample_is_worth_needs_a_noise_scale() -> None:
    batches, present = a_run(), {"batch_size": 32}
    assert batches.worth({"batch_size": 64}, present) == 0.0
    batches = replace(batches, noise=NoiseScale(32.0, 16.0, 64.0))
    assert batches.worth({"batch_size": 64}, present) == pytest.approx(math.log(64 / 96))
    assert batches.sure_worth({"batch_size": 64}, present) < batches.worth({"batch_size": 64}, present)
    assert batches.worth(present, present) == 0.0


def test_no_noise_scale_speaks_for_a_smaller_batch() -> None:
    """That of the first steps is small, so it would: what it learns more from a sample need not last."""
    batches, present = replace(a_run(), noise=NoiseScale(32.0, 16.0, 64.0)), {"batch_size": 256}
    assert (
        batches.worth({"batch_size": 64}, present) == batches.sure_worth({"batch_size": 64}, present) == 0.0
    )


def test_a_larger_batch_brings_no_rule_where_the_loss_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()
    present = Configuration({"batch_size": 32, "amp": "off"})
    run._wide = Space(
        present, present, {"batch_size": [32, 128]}, [], PROFILE
    )  # no lr_scaling: losses are summed
    chosen = SimpleNamespace(batch_size=128, lr_scaling="none")
    advice = SimpleNamespace(noise=None, measured=(), chosen=chosen)
    monkeypatch.setattr(Batching, "advise", lambda batching, nominee: advice)
    monkeypatch.setattr(batches_module, "expected_s", lambda *of: 0.0)
    found = run.extend(
        cast(Arena, SimpleNamespace(clock=lambda: 0.0)),
        PROFILE,
        present.with_({"amp": "bf16"}),
        math.inf,
        1.0,
        alone,
    )
    assert found == {"batch_size": 128, "amp": "bf16"}


def test_the_time_that_it_takes_grows_with_the_step_and_the_start() -> None:
    machine = Machine(LARGE_NOISE)
    machine.quad_s = 0.5
    short = expected_s(cast(Arena, machine), 0.1)
    machine.step_s = 0.4
    assert expected_s(cast(Arena, machine), 0.1) > 10 * short
    assert expected_s(cast(Arena, machine), 5.0) > expected_s(cast(Arena, machine), 0.1) + 20


@pytest.mark.parametrize("noise", [SMALL_NOISE, None])
def test_a_confirmation_goes_on_where_its_samples_can_be_weighed(
    monkeypatch: pytest.MonkeyPatch, noise: NoiseScale | None
) -> None:
    """Otherwise what is measured now would count as throughput beside what counted as goodput."""
    asked = list[Any]()

    def measure(*given: Any, **more: Any) -> NoiseScale | None:
        asked.append(given)
        return noise

    monkeypatch.setattr(batches_module, "measure_noise_scale", measure)
    batches = Batches(Settings(target=TargetRequest(kind="script", name="train.py")), cast(Any, Silent()))
    space, arena = a_space(), cast(Arena, None)
    assert batches.can_weigh(arena, space, PROFILE, space.present, math.inf) and not asked
    larger = Configuration({"batch_size": 64, "lr_scaling": "sqrt"})
    assert batches.can_weigh(arena, space, PROFILE, larger, math.inf) is (noise is not None)
    assert (batches.sure_worth(larger, space.present) < 0) is (noise is not None) and len(asked) == 1
