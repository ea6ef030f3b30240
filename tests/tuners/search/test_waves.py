"""Several configurations at once: what gained together and alone, what declined, and where the limits are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from scripted_search import Kept, a_search

from advisor.tuners.benches.crew import Crew
from advisor.tuners.benches.messages import NotMeasured, Opened, Raced, RunRace, understood, written
from advisor.tuners.benches.remote import RemoteBench
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.search.search import Search
from advisor.tuners.supervision.failures import Failure
from advisor.tuners.trial.messages import Slot

CHOICES: dict[str, list[Value]] = {
    "num_threads": [1, 2],
    "amp": ["off", "bf16"],
    "optimizer_implementation": ["default", "fused"],
    "channels_last": ["off", "on"],
}
Speed = Callable[[Mapping[str, Value]], float]
Gains = Mapping[tuple[str, Value], float]


@dataclass
class ScriptedLine:
    """A bench that races by a known speed, and answers at once."""

    node: str
    speed: Speed
    fails: Callable[[RunRace], NotMeasured | None] = lambda race: None
    raced: list[dict[str, Value]] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)

    def send(self, line: str) -> None:
        race = understood(line)
        if not isinstance(race, RunRace):
            return
        self.raced.append(race.candidate)
        ratio = math.log(self.speed(race.candidate) / self.speed(race.incumbent))
        estimate = Estimate(ratio, ratio - 0.001, ratio + 0.001, 0.9, 3, 1)
        slots = (Slot((0.1,)),)
        raced = Raced(race.key, 1.0, estimate, pairs=1, slots=slots, log_ratios=(ratio,))
        answer = self.fails(race) or raced
        self.ready.append(written(answer))

    def receive(self, timeout_s: float) -> str | None:
        return self.ready.pop(0) if self.ready else None

    def close(self) -> None:
        self.ready.clear()


def search_on(
    benches: int,
    speed: Speed,
    fails: Callable[[RunRace], NotMeasured | None] = lambda race: None,
    choices: dict[str, list[Value]] = CHOICES,
    **given: Any,
) -> tuple[Search, list[ScriptedLine], Kept]:
    lines = [ScriptedLine(f"n{place}", speed, fails) for place in range(benches - 1)]
    crew = Crew(lambda: 0.0, others=[RemoteBench(line, lambda: 0.0) for line in lines])
    for bench in crew.others:
        bench.opened = Opened("f", "a machine", "3.11", "", 0.01, 0.01, 1.0)
    search, _, kept = a_search(speed, choices, crew=crew, **given)
    return search, lines, kept


def product_of(gains: Gains) -> Speed:
    return lambda config: math.prod(
        gain for (name, value), gain in gains.items() if config.get(name) == value
    )


def test_what_gains_alone_is_adopted_together_after_one_more_look() -> None:
    gains: Gains = {("num_threads", 2): 1.3, ("amp", "bf16"): 1.2, ("channels_last", "on"): 0.9}
    search, lines, kept = search_on(4, product_of(gains))
    found = search.run(None)
    assert found.changed(search.space.present) == {"num_threads": 2, "amp": "bf16"}
    assert math.isclose(search.score, math.log(1.3 * 1.2), abs_tol=0.01)
    assert sum(len(line.raced) for line in lines) > 3
    numbers = [trial.number for trial in kept.trials]
    assert numbers == sorted(set(numbers)) and len({trial.config for trial in kept.trials}) > 4


@pytest.mark.parametrize(
    ("benches", "looked"), [(2, {"optimizer_implementation"}), (4, {"optimizer_implementation", "malloc"})]
)
def test_a_long_look_that_promises_next_to_nothing_waits_for_the_verdict(
    benches: int, looked: set[str]
) -> None:
    """Of two benches none would be left beside what is only usual and takes as long."""
    choices: dict[str, list[Value]] = {
        "optimizer_implementation": ["default", "fused"],
        "num_interop_threads": [1, 2],
        "malloc": ["libc", "libc-tuned"],
    }
    speed = product_of({("optimizer_implementation", "fused"): 1.5})
    search, _, kept = search_on(
        benches, speed, choices=choices, startup_s=20.0, verdict_s=lambda config, score: 60.0
    )
    found = search.run(None)
    tried = {name for trial in kept.trials for name in trial.config.changed(search.space.present)}
    assert search.paused and tried == looked
    search.go_on(found, search.score, math.inf)
    assert any(trial.config["num_interop_threads"] == 2 for trial in kept.trials)


def test_what_does_not_go_together_comes_in_alone() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        threads, half = config["num_threads"] == 2, config["amp"] == "bf16"
        return 0.8 if threads and half else 1.3 if threads else 1.2 if half else 1.0

    search, _, kept = search_on(4, speed)
    assert search.run(None).changed(search.space.present) == {"num_threads": 2}
    tried = [trial.config.changed(search.space.present) for trial in kept.trials]
    assert {"num_threads": 2, "amp": "bf16"} in tried


def test_two_of_three_that_go_together_are_found_though_all_do_not() -> None:
    def speed(config: Mapping[str, Value]) -> float:
        gains: Gains = {("num_threads", 2): 1.3, ("amp", "bf16"): 1.2, ("channels_last", "on"): 1.1}
        clash = config["amp"] == "bf16" and config["channels_last"] == "on"
        return product_of(gains)(config) * (0.6 if clash else 1.0)

    search, _, _ = search_on(3, speed)
    assert search.run(None).changed(search.space.present) == {"num_threads": 2, "amp": "bf16"}


def test_a_failure_on_another_node_is_learnt_from_as_here() -> None:
    def fails(race: RunRace) -> NotMeasured | None:
        if race.candidate["amp"] == "bf16":
            return NotMeasured(race.key, 1.0, Failure("user_error", "no bf16"), log="n0:/log")
        return None

    search, _, kept = search_on(4, product_of({("amp", "bf16"): 2.0, ("num_threads", 2): 1.2}), fails)
    found = search.run(None).changed(search.space.present)
    failed = [trial for trial in kept.trials if trial.state == "failed"]
    assert found.get("num_threads") == 2
    for trial in failed:
        assert (trial.cause, trial.message) == ("user_error", "no bf16") and trial.config["amp"] == "bf16"
    assert len({trial.config for trial in failed}) == len(failed), "none is tried twice"


def test_what_was_measured_beside_a_setting_that_declined_counts_nothing() -> None:
    """From the second wave on the incumbent's threads decline on the other nodes."""

    def fails(race: RunRace) -> NotMeasured | None:
        if race.incumbent["num_threads"] == 2:
            lost = {"num_threads": "its workers changed"}
            return NotMeasured(race.key, 1.0, Failure("not_applied", "its workers changed"), lost)
        return None

    search, _, kept = search_on(4, product_of({("num_threads", 2): 1.5, ("amp", "bf16"): 1.2}), fails)
    found = search.run(None).changed(search.space.present)
    assert "num_threads" not in found
    assert any(entry.knob == "num_threads" for entry in search.not_tried)
    assert any(trial.cause == "not_applied" for trial in kept.trials)


def test_two_looks_at_one_configuration_are_one_trial() -> None:
    search, _, kept = search_on(4, product_of({("channels_last", "on"): 1.1}))
    found = search.run(None)
    assert found.changed(search.space.present) == {"channels_last": "on"}
    trial = next(each for each in kept.trials if each.config == found)
    estimate = trial.against_baseline
    assert estimate is not None and (estimate.instances, len(trial.slots)) == (2, 2)


def test_no_more_trials_are_begun_than_asked_for() -> None:
    search, _, kept = search_on(4, lambda config: 1.0, max_trials=4)
    search.run(None)
    assert search.stopped_by == "trials" and len(kept.trials) == 3
