"""Changes taken out one by one: what each is worth, and which are needed."""

import math
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import a_loader, a_profile

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.comparing.ways import BATON, LIVE, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search import ablate
from advisor.tuners.search.removal import Removal, judged
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.trial.messages import Slot

BASE = Configuration({"batch_size": 32, "lr_scaling": "none", "amp": "off", "gc_freeze": "off"})
WINNER = Configuration({"batch_size": 256, "lr_scaling": "linear", "amp": "bf16", "gc_freeze": "on"})
FASTER = {"batch_size": 4.0, "amp": 1.5, "gc_freeze": 1.0}


def a_space(present: Configuration) -> Space:
    return Space(present, present, {}, [], a_profile(loader=a_loader()))


def removed(
    patch: pytest.MonkeyPatch,
    half_width: float = 0.01,
    how: str = LIVE,
    cut_off: bool = False,
    deadline: float = math.inf,
    sigma: float = 0.05,
    **options: Any,
) -> tuple[Configuration, list[Removal]]:
    """As if each change made the program faster by what ``FASTER`` says."""

    def contribution(
        bench: Any,
        reduced: Mapping[str, Value],
        winner: Mapping[str, Value],
        detectable: float,
        fewest: int = 1,
    ) -> Estimate:
        gone = [name for name in FASTER if reduced[name] != winner[name]]
        ratio = sum(math.log(FASTER[name]) for name in gone)
        return Estimate(ratio, ratio - half_width, ratio + half_width, 0.99, 4, 1)

    patch.setattr(ablate._Bench, "contribution", contribution)
    patch.setattr(ablate._Bench, "cut_off", cut_off)
    arena = cast(
        Arena,
        SimpleNamespace(
            knobs=KNOBS,
            clock=lambda: 0.0,
            how=lambda *of, **fresh: how,
            quad_s=0.1,
            sigma=sigma,
            at_once=True,
            step_s=0.1,
            window_steps=lambda config, fresh=False: (32, 128),
            may_switch=lambda first, second: True,
        ),
    )
    return ablate.removals(
        arena, WINNER, a_space(BASE), detectable=0.02, level=0.99, number=0, deadline=deadline, **options
    )


def test_what_costs_nothing_to_take_out_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config, removals = removed(monkeypatch)
    assert config == {**WINNER, "gc_freeze": "off"}
    assert {each.knob: each.needed for each in removals} == {
        "batch_size": True, "amp": True, "gc_freeze": False,
    }  # fmt: skip
    assert {each.knob: math.exp(each.contribution.estimate) for each in removals} == pytest.approx(FASTER)


def test_what_cannot_be_told_from_nothing_is_taken_out_and_the_last_change_left_to_the_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, removals = removed(monkeypatch, half_width=0.5)
    assert config == {**WINNER, "amp": "off", "gc_freeze": "off"}
    assert {each.knob: each.needed for each in removals} == {
        "batch_size": True, "amp": False, "gc_freeze": False,
    }  # fmt: skip
    config, removals = removed(monkeypatch, half_width=5.0)
    assert config == {**BASE, "gc_freeze": "on"} and [each.knob for each in removals] == ["batch_size", "amp"]


def test_the_strongest_is_left_to_the_pairs_where_nothing_can_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {"batch_size": Estimate(0.1, 0, 0.2, 0.9, 1, 1), "amp": Estimate(0.3, 0, 0.5, 0.9, 1, 1)}
    config, removals = removed(monkeypatch, half_width=5.0, seen=seen)
    assert config == {**BASE, "amp": "bf16"}
    assert [each.knob for each in removals] == ["gc_freeze", "batch_size"]


def test_the_last_of_several_that_came_in_together_is_seen_by_what_they_gave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gave = Estimate(0.4, 0.35, 0.45, 0.9, 1, 1)
    seen = {
        "gc_freeze": Estimate(-0.01, -0.1, 0.08, 0.9, 1, 1),  # goes first, and costs nothing
        "batch_size": Estimate(1.4, 1.3, 1.5, 0.9, 1, 1),
    }

    def is_amp_needed(joint: dict[frozenset[str], Estimate]) -> bool:
        found = removed(monkeypatch, half_width=0.45, seen=seen, joint=joint)[1]
        return next(each.needed for each in found if each.knob == "amp")

    assert not is_amp_needed({})  # 1.5 times, and less than its noise
    assert is_amp_needed({frozenset(("amp", "gc_freeze")): gave})
    assert not is_amp_needed({frozenset(("amp", "batch_size")): gave})  # the other one may have given it


@pytest.mark.parametrize("cut_off", [True, False])
def test_what_is_half_measured_when_time_is_over_is_kept_if_it_was_clearly_seen_to_gain(
    cut_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear, unclear = Estimate(0.6, 0.4, 0.8, 0.9, 1, 1), Estimate(0.3, -0.1, 0.7, 0.9, 1, 1)
    seen = {"batch_size": clear, "amp": unclear, "gc_freeze": clear}
    config, removals = removed(monkeypatch, half_width=1.5, cut_off=cut_off, seen=seen)
    assert {each.knob for each in removals if each.needed} == ({"batch_size"} if cut_off else set())
    assert (config["batch_size"] == 256) is cut_off and config["amp"] == "off"
    assert [each.contribution for each in removals if each.needed] == ([clear] if cut_off else [])


@pytest.mark.parametrize(
    ("removal", "seen", "needed"),
    [  # log ratio and half width at 99 % and at 90 %
        ((0.3, 0.4), (0.4, 0.2), True),
        ((0.3, 0.4), (0.4, 0.9), False),
        ((0.3, 0.4), (0.1, 0.05), False),
        ((0.01, 0.4), (2.0, 0.2), False),  # less than counts
        ((0.3, 1.5), (0.6, 0.01), False),  # what was chosen for its gain counts for no more than the removal
    ],
)
def test_what_a_removal_does_not_tell_may_be_told_by_both_looks(
    removal: tuple[float, float], seen: tuple[float, float], needed: bool
) -> None:
    out = Estimate(removal[0], removal[0] - removal[1], removal[0] + removal[1], 0.99, 4, 1)
    alone = Estimate(seen[0], seen[0] - seen[1], seen[0] + seen[1], 0.9, 1, 1)
    assert judged("amp", out, 0.05) == Removal("amp", out, False)
    found = judged("amp", out, 0.05, alone)
    assert found.needed is needed
    assert (found.contribution.low > 0) is needed  # what stays is told by what has decided it
    assert not needed or min(removal[0], seen[0]) < found.contribution.estimate < max(removal[0], seen[0])


@pytest.mark.parametrize(
    ("deadline", "gain", "low", "kept", "measured"),
    [
        (100.0, 0.04, 0.01, False, False),
        (100.0, 0.08, 0.05, True, False),
        (2000.0, 0.04, 0.01, False, True),
        (100.0, 0.8, 0.01, False, True),
    ],
)
def test_what_takes_more_of_what_is_left_than_it_is_worth_is_not_measured(
    deadline: float, gain: float, low: float, kept: bool, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {name: Estimate(1.0, 0.9, 1.1, 0.9, 1, 1) for name in ("amp", "batch_size")}
    seen["gc_freeze"] = Estimate(gain, low, 2 * gain, 0.9, 1, 1)
    options: dict[str, Any] = {"deadline": deadline, "sigma": 1e-4, "startup_s": 4.0, "seen": seen}
    config, removals = removed(monkeypatch, how=BATON, **options)
    told = {each.knob: each.contribution.estimate for each in removals}
    assert (config["gc_freeze"] == "on") is kept
    assert (told.get("gc_freeze", gain) != gain) is measured


@pytest.mark.parametrize(("speed", "measured"), [(1.0, False), (8.0, True)])
def test_windows_that_take_more_of_what_is_left_than_a_change_is_worth_are_not_measured(
    speed: float, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {name: Estimate(1.0, 0.9, 1.1, 0.9, 1, 1) for name in ("amp", "batch_size")}
    seen["gc_freeze"] = Estimate(0.07, -0.1, 0.2, 0.9, 1, 1)
    told: list[str] = []
    options: dict[str, Any] = {"seen": seen, "speed": speed, "say": told.append}
    config, removals = removed(monkeypatch, how=WINDOWS, deadline=100.0, **options)
    assert config["gc_freeze"] == "off" and ("taking gc_freeze out" in told) is measured
    assert {each.knob for each in removals if each.needed} == {"amp", "batch_size"}


def test_what_few_pairs_of_processes_would_not_tell_is_taken_out_unmeasured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {"amp": Estimate(0.3, 0, 0.5, 0.9, 1, 1), "gc_freeze": Estimate(0.01, -0.1, 0.1, 0.9, 1, 1)}
    config, removals = removed(monkeypatch, how=BATON, seen=seen)
    assert config == {**WINNER, "gc_freeze": "off"}
    assert Removal("gc_freeze", seen["gc_freeze"], False) in removals
    assert {each.knob for each in removals if each.needed} == {"batch_size", "amp"}


SHARED = {"batch_size": Estimate(1.4, 1.2, 1.6, 0.9, 1, 1)}
NOISE = Estimate(0.03, -0.05, 0.1, 0.9, 1, 1)


def compared(
    patch: pytest.MonkeyPatch, faster: Mapping[str, float], detectable: float = 0.02, least: float = math.inf
) -> list[set[str]]:
    """What each comparison takes out of a winner of four changes, each of which makes it so much faster."""
    seen = {**SHARED, "amp": NOISE, "gc_freeze": NOISE, "set_to_none": NOISE}
    wide, present = (
        Configuration({**of, "set_to_none": value}) for of, value in ((WINNER, "on"), (BASE, "off"))
    )
    asked: list[set[str]] = []

    def contribution(
        bench: Any,
        reduced: Mapping[str, Value],
        winner: Mapping[str, Value],
        detectable: float,
        fewest: int = 1,
    ) -> Estimate:
        asked.append({name for name in seen if reduced[name] != winner[name]})
        ratio = sum(math.log(faster.get(name, 1.0)) for name in asked[-1])
        return Estimate(ratio, ratio - 0.01, ratio + 0.01, 0.99, 4, 1)

    patch.setattr(ablate._Bench, "contribution", contribution)
    arena = cast(
        Arena,
        SimpleNamespace(
            knobs=KNOBS, clock=lambda: 0.0, how=lambda *of, **fresh: LIVE, quad_s=0.1, sigma=0.05
        ),
    )
    config, removals = ablate.removals(
        arena, wide, a_space(present), seen=seen, detectable=detectable, least=least, level=0.99, number=0,
        deadline=math.inf,
    )  # fmt: skip
    needed = {name for name in seen if faster.get(name, 1.0) > 1.02}
    assert not {each.knob for each in removals if not each.needed} & needed
    assert {name for name in seen if config[name] != present[name]} == needed
    return asked


def test_what_was_not_clearly_seen_to_gain_goes_by_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = compared(monkeypatch, {"batch_size": 4.0})
    assert asked == [{"amp", "gc_freeze", "set_to_none"}]  # what is left is for the confirmation


def test_what_brings_something_together_is_taken_out_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = compared(monkeypatch, {"batch_size": 4.0, "gc_freeze": 1.2})
    assert [len(each) for each in asked] == [3, 1, 1, 1, 1]


def test_what_clearly_brings_a_little_stays_where_that_much_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the baseline alone could tell from noise is 5 %; removals in one process tell 4 %."""
    asked = compared(monkeypatch, {"batch_size": 4.0, "gc_freeze": 1.04}, detectable=0.05, least=0.02)
    assert [len(each) for each in asked] == [3, 1, 1, 1, 1]


@pytest.mark.parametrize(("half", "needed"), [(0.03, True), (0.05, False)])
def test_less_than_the_baseline_could_tell_counts_where_the_removal_tells_it(
    half: float, needed: bool
) -> None:
    out = Estimate(0.04, 0.04 - half, 0.04 + half, 0.99, 4, 1)
    seen = Estimate(0.2, 0.15, 0.25, 0.9, 4, 1)
    assert judged("amp", out, 0.05, seen, least=0.02).needed is needed
    assert not judged("amp", out, 0.05, seen, least=0.045).needed


def test_what_is_known_to_gain_is_not_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"amp": Estimate(0.5, 0.4, 0.6, 0.9, 1, 1)}
    config, removals = removed(monkeypatch, half_width=5.0, known=known)
    assert config == {**BASE, "amp": "bf16"}
    assert {each.knob: each.needed for each in removals} == {
        "amp": True, "batch_size": False, "gc_freeze": False,
    }  # fmt: skip
    assert removals[0].contribution is known["amp"]


def test_what_is_known_of_what_is_left_is_not_taken_out_once_others_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The garbage collector's setting acts anywhere: beside it the gain of fewer bits is not known."""
    amp, said = Estimate(0.5, 0.4, 0.6, 0.9, 1, 1), list[str]()
    seen = {"gc_freeze": Estimate(0.01, -0.1, 0.1, 0.9, 1, 1), "amp": amp}

    def known_of(config: Configuration) -> dict[str, Estimate]:
        return {"amp": amp} if config["gc_freeze"] == "off" else {}

    config, removals = removed(monkeypatch, seen=seen, known_of=known_of, say=said.append)
    assert config == {**WINNER, "gc_freeze": "off"}
    assert "taking amp out" not in said and "taking gc_freeze out" in said
    assert next(each for each in removals if each.knob == "amp").contribution is amp


def test_a_larger_batch_counts_by_what_its_samples_are_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    half = {32: 0.0, 256: -math.log(2)}
    _, removals = removed(monkeypatch, worth=lambda config: half[config["batch_size"]])
    found = {each.knob: math.exp(each.contribution.estimate) for each in removals}
    assert found == pytest.approx({"batch_size": 2.0, "amp": 1.5, "gc_freeze": 1.0})


def test_a_batch_that_is_faster_and_worth_less_goes_with_its_learning_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fifth = {32: 0.0, 256: -math.log(5)}
    config, _ = removed(monkeypatch, worth=lambda config: fifth[config["batch_size"]])
    assert config == {**BASE, "amp": "bf16"}


def test_what_is_measured_while_threads_collapse_tells_no_contribution() -> None:
    base = Configuration({"num_threads": 1, "gc_freeze": "off"})
    winner = Configuration({"num_threads": 2, "gc_freeze": "on"})
    alone, collapsed = (
        Slot((0.5,) * 2, cpu_s=1.0),
        Slot((0.5,) * 2, cpu_s=1.1, other_cpu_s=0.9 * len(os.sched_getaffinity(0))),
    )

    def quads(sessions: Any, configs: Any, quads: int, deadline: float, by_work: bool) -> Any:
        slots = [[collapsed if config["num_threads"] == 2 else alone] for config in configs]
        return [-0.5] * quads, (slots[0], slots[1]), ({}, {})

    session = SimpleNamespace(alive=True, first_step=lambda: 0.1, kill=lambda: None)
    arena = SimpleNamespace(
        knobs=KNOBS, how=lambda *configs, **options: LIVE, start=lambda *of: session, sigma=0.01,
        settled=lambda config: {},
        warm_up=lambda *of, **options: None, quads=quads, clock=lambda: 0.0, quad_s=0.1,
    )  # fmt: skip
    config, removals = ablate.removals(
        cast(Arena, arena), winner, a_space(base), detectable=0.02, level=0.99, number=0, deadline=math.inf
    )
    assert config == {"num_threads": 2, "gc_freeze": "off"}
    assert [each.knob for each in removals] == ["gc_freeze"]


def test_one_look_does_not_say_that_what_was_clearly_seen_to_gain_brings_nothing() -> None:
    """Looks of a few seconds differ by a fifth on two CPUs that threads and workers share."""
    clearly = Estimate(0.26, 0.15, 0.37, 0.9, 12, 1)

    def taken_out(
        seen: dict[str, Estimate], how: str, *told: list[float], detectable: float = 0.02, quad_s: float = 0.1
    ) -> tuple[bool, int]:
        left = list(told)
        base: dict[str, Value] = {"num_workers": 4, "gc_freeze": "off"}
        winner: dict[str, Value] = {"num_workers": 1, "gc_freeze": "on"}
        session = SimpleNamespace(alive=True, first_step=lambda: 0.1, kill=lambda: None)
        arena = SimpleNamespace(
            knobs=KNOBS, how=lambda *configs, **options: how, may_switch=lambda *configs: True,
            start=lambda *of: session, settled=lambda config: {}, warm_up=lambda *of, **options: None,
            window_steps=lambda config, fresh=False: (32, 128), step_s=0.01, sigma=0.01, quad_s=quad_s,
            clock=lambda: 0.0, at_once=False,
            switched=lambda *of, swapped: SimpleNamespace(log_ratios=left.pop(0)),
            quads=lambda *of: (left.pop(0), ([], []), ({}, {})),
        )  # fmt: skip
        config, _ = ablate.removals(
            cast(Arena, arena), Configuration(winner), a_space(Configuration(base)),
            detectable=detectable, least=0.02, level=0.99, number=0, deadline=math.inf, seen=seen,
            known={"num_workers": clearly},
        )  # fmt: skip
        return config["gc_freeze"] == "off", len(left)

    nothing, gains, seen = [-0.12, -0.11, -0.1, -0.11], [0.26, 0.25, 0.27, 0.26], {"gc_freeze": clearly}
    assert taken_out({}, LIVE, nothing, gains) == (True, 1)
    assert taken_out(seen, LIVE, nothing, gains, gains * 2) == (False, 0)
    assert taken_out(seen, LIVE, nothing, nothing, gains * 2) == (True, 1)
    unclear, told = [-0.02, 0.03, 0.01, 0.04], [0.04, 0.041, 0.039, 0.04]
    assert taken_out({}, LIVE, unclear, told * 3, detectable=0.2) == (False, 0)
    assert taken_out({}, LIVE, unclear, told * 3, detectable=0.2, quad_s=3.0) == (True, 1)
    slower, faster = [-2.0], [0.3]
    assert taken_out({}, WINDOWS, slower, faster) == (True, 1)
    assert taken_out(seen, WINDOWS, slower, slower, faster * 2) == (True, 1)
    much, more, little = [0.75], [0.35], [0.15]
    assert taken_out({}, WINDOWS, much, more, more, much, *4 * [[0.5]]) == (False, 0)
    assert taken_out({}, WINDOWS, much, more, [-0.3], much, *4 * [[0.01]]) == (True, 0)
    assert taken_out({}, WINDOWS, little, [0.0], [0.0], little, *4 * [[0.5]]) == (True, 4)
