"""A setting of the incumbent that declines late is given up: the search goes on from the one before it."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from scripted_search import Kept, ScriptedArena, a_search

from advisor.tuners.knob import Value
from advisor.tuners.search.search import Search
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.messages import Slot, SlotMeasured

CHOICES: dict[str, list[Value]] = {
    "num_threads": [1, 2],
    "amp": ["off", "bf16"],
    "optimizer_implementation": ["default", "fused"],
}
GAINS = {("num_threads", 2): 1.3, ("amp", "bf16"): 1.2, ("optimizer_implementation", "fused"): 1.1}
ADOPTED = 4  # comparisons until num_threads=2 belongs to the incumbent, beside amp=bf16
WHY = "the program changes its dataset between epochs"


def speed(config: Mapping[str, Value]) -> float:
    return math.prod(gain for (name, value), gain in GAINS.items() if config.get(name) == value)


def declining(
    name: str, value: Value, *, after: int, also: dict[str, Value] | None = None
) -> tuple[Search, ScriptedArena, Kept]:
    """A search in whose live comparisons a setting declines wherever it is set, after so many of them."""
    search, arena, kept = a_search(speed, CHOICES, also)
    asked = [0]

    def quads(sessions: Any, configs: Any, quads: int, deadline: float, by_work: bool = False) -> Any:
        asked[0] += 1
        late = asked[0] > after
        messages = [
            SlotMeasured(refused={name: WHY} if late and config.get(name) == value else {})
            for config in configs
        ]
        ratio = arena.ratio(*configs)
        return [ratio + 0.0001 * index for index in range(quads)], ([], [Slot((0.1,))]), tuple(messages)

    arena.quads = quads  # type: ignore[method-assign]
    return search, arena, kept


@pytest.mark.parametrize("after", range(ADOPTED, ADOPTED + 5))
def test_what_declines_late_is_given_up_and_the_rest_is_found(after: int) -> None:
    search, _, kept = declining("num_threads", 2, after=after)
    assert search.run(None) == {"num_threads": 1, "amp": "bf16", "optimizer_implementation": "fused"}
    assert ("num_threads", 2, WHY) in [(each.knob, each.value, each.reason) for each in search.not_tried]
    assert search.score == pytest.approx(math.log(1.2 * 1.1), abs=0.01)
    (failed,) = [trial for trial in kept.trials if trial.state == "failed"]
    assert (failed.cause, failed.message) == ("not_applied", f"num_threads: {WHY}")


def test_it_is_not_proposed_again() -> None:
    search, arena, _ = declining("num_threads", 2, after=ADOPTED)
    search.run(None)
    tried = [config["num_threads"] for config in arena.measured]
    assert tried[: ADOPTED + 1] == [1, 1, 2, 2, 2]  # the last one showed it
    assert set(tried[ADOPTED + 1 :]) == {1}


def test_what_the_baseline_has_by_itself_is_never_given_up() -> None:
    search, _, _ = declining("gc_freeze", "on", after=0, also={"gc_freeze": "on"})
    assert search.run(None) == {
        "num_threads": 2, "amp": "bf16", "optimizer_implementation": "fused", "gc_freeze": "on",
    }  # fmt: skip
    assert search.not_tried == []


def test_the_last_incumbent_without_it_takes_its_place_and_the_process_ends() -> None:
    search, _, _ = a_search(speed, CHOICES)
    alone = search.space.present.with_({"amp": "bf16"})
    both = alone.with_({"num_threads": 2})
    search._adopt(0.2, alone)
    search._adopt(0.4, both)
    search._adopt(0.5, both.with_({"optimizer_implementation": "fused"}))
    process = search._race._session(search.incumbent)
    with pytest.raises(TrialFailed, match=WHY):
        search._race._refused(
            search.incumbent, both, SlotMeasured(refused={"num_threads": WHY}), SlotMeasured()
        )
    assert not process.alive
    search._fall_back(search._race.lost)
    assert (search.incumbent, search.score) == (alone, 0.2)


def test_what_the_candidate_alone_declines_is_not_the_incumbents() -> None:
    race = a_search(speed, CHOICES)[0]._race
    config = race.base.with_({"num_threads": 2, "amp": "bf16"})
    said = SlotMeasured(refused={"num_threads": WHY})
    off = config.with_({"amp": "off"})
    assert race._refused(off, config, SlotMeasured(), said) == {"num_threads": WHY}
    assert race._refused(race.base, config, SlotMeasured(), said) == {"num_threads": WHY}
    assert race.lost == {}
