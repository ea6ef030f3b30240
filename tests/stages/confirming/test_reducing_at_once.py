"""Changes taken out of a nominee on several benches at once."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import a_loader, a_profile

from advisor.stages.confirming.outcome import Outcome
from advisor.stages.confirming.reducing import Reducing
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.comparing.ways import BATON, LIVE
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.known_gains import KnownGains
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

BASE = Configuration({"channels_last": "off", "amp": "off", "gc_freeze": "off"})
NOMINEE = Configuration({"channels_last": "on", "amp": "bf16", "gc_freeze": "on"})
CLEAR = Estimate(math.log(2.0), math.log(1.9), math.log(2.1), 0.99, 4, 1)
WIDE = Estimate(math.log(1.5), math.log(0.9), math.log(2.5), 0.99, 1, 1)
BARELY = Estimate(0.02, 0.001, 0.039, 0.99, 1, 1)
NOTHING = Estimate(0.0, -0.01, 0.01, 0.99, 4, 1)


def kept(
    came: Mapping[str, tuple[Estimate, bool]], seen: Mapping[str, Estimate], detectable: float = 0.02
) -> Configuration:
    """What is left where removals on two benches came to these estimates, each cut off by time or not."""

    def run(tasks: list[Any]) -> list[SimpleNamespace]:
        removed = [task.asked(0).reduced for task in tasks]
        names = [next(name for name in came if config[name] == BASE[name]) for config in removed]
        return [SimpleNamespace(value=came[name]) for name in names]

    bench = SimpleNamespace(
        clock=lambda: 0.0,
        settings=SimpleNamespace(confidence=0.99, min_gain=0.02),
        progress=SimpleNamespace(say=lambda text: None),
        arena=SimpleNamespace(settled=lambda config: {}, how=lambda *configs, fresh: BATON),
        baseline=SimpleNamespace(detectable=detectable, startup_s=1.0, session=None),
        crew=SimpleNamespace(size=2, run=run),
    )
    gains = KnownGains(KNOBS, BASE)
    for name, estimate in seen.items():
        gains.note(BASE, BASE.with_({name: NOMINEE[name]}), estimate)
    space = Space(BASE, BASE, {}, [], a_profile(loader=a_loader()))
    reducing = Reducing(
        cast(Any, bench), space, NOMINEE, list(came), gains, 7, 60.0, worth=lambda config: 0.0
    )
    return reducing.reduced(Outcome(BASE))


def test_what_brings_nothing_goes_and_what_clearly_gains_stays() -> None:
    left = kept({"amp": (CLEAR, False), "channels_last": (CLEAR, False), "gc_freeze": (NOTHING, False)}, {})
    assert left == NOMINEE.with_({"gc_freeze": "off"})


def test_what_is_clearly_told_stays_however_little_the_baseline_could_tell() -> None:
    fifth = Estimate(math.log(1.2), math.log(1.1), math.log(1.3), 0.99, 4, 1)
    assert kept({"amp": (fifth, False), "channels_last": (CLEAR, False)}, {}, 0.35)["amp"] == "bf16"


@pytest.mark.parametrize(("gain", "stays"), [(0.04, True), (0.015, False)])
def test_what_a_removal_tells_stays_from_the_least_gain_that_is_asked_for(gain: float, stays: bool) -> None:
    """However little the baseline could tell from noise, and where that is told for less than a tenth."""
    told = Estimate(gain, gain - 0.01, gain + 0.01, 0.99, 4, 1)
    left = kept({"amp": (told, False), "channels_last": (CLEAR, False)}, {}, detectable=0.1)
    assert left["amp"] == ("bf16" if stays else "off")


@pytest.mark.parametrize(
    ("cut_off", "seen", "stays"),
    [
        (True, {"amp": CLEAR}, True),
        (True, {"amp": WIDE}, False),
        (True, {}, False),
        (False, {"amp": CLEAR}, True),  # both together tell it
        (False, {"amp": BARELY}, False),
        (True, {"amp": BARELY}, True),
    ],
)
def test_what_removal_does_not_tell_stays_if_the_search_clearly_saw_it_gain(
    cut_off: bool, seen: Mapping[str, Estimate], stays: bool
) -> None:
    left = kept({"amp": (WIDE, cut_off), "channels_last": (CLEAR, False)}, seen)
    assert left["amp"] == ("bf16" if stays else "off")


@pytest.mark.parametrize("how", [BATON, LIVE])
def test_what_one_process_is_switched_for_is_not_asked_of_others(how: str) -> None:
    asked: list[Any] = []
    crew = SimpleNamespace(size=4, ahead=asked.extend)
    arena = SimpleNamespace(how=lambda *configs, fresh: how)
    bench: Any = SimpleNamespace(
        arena=arena, crew=crew, settings=SimpleNamespace(confidence=0.99), clock=lambda: 0.0,
        baseline=SimpleNamespace(detectable=0.02),
    )  # fmt: skip
    space = Space(BASE, BASE, {}, [], a_profile(loader=a_loader()))
    names = ["amp", "channels_last", "gc_freeze"]
    reducing = Reducing(
        bench, space, NOMINEE, names, KnownGains(KNOBS, BASE), 7, 60.0, worth=lambda config: 0.0
    )
    reducing.ask_ahead()
    assert len(asked) == (0 if how == LIVE else 3)
