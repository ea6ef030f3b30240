from dataclasses import replace
from typing import Any

from builders import a_loader, a_profile, a_root, a_served_profile, an_optimizer

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import HotSpot, LineCalls, Location, RankFacts
from advisor.profiles.facts.profile import StepPhases
from advisor.rules.unattributed_time import UnattributedTime

FACTS = ("norm",), 60, 1.0, 0, 0, 0.0, 60, 1
ELSEWHERE = LineCalls(Location("/home/me/train.py", 34), "other", *FACTS)
METRICS = HotSpot("other", Location("/home/me/train.py", 33, "accuracy"), 0.6)


def check(other_ms: float, *spots: HotSpot, **facts: Any) -> Finding:
    profile = a_profile(phases_ms={"other": other_ms}, hotspots=spots, **{"loader": a_loader(), **facts})
    return UnattributedTime().check(profile)


def test_the_line_met_most_is_named_with_its_part() -> None:
    elsewhere = HotSpot("forward", Location("net.py", 1), 0.9)
    spots = elsewhere, HotSpot("other", Location("train.py", 2), 0.1), METRICS
    finding = check(3.0, *spots, line_calls=(ELSEWHERE,))
    assert finding.title == "30 % of each step is in no known part, 60 % of it at train.py:33"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.MEDIUM)
    assert finding.location == METRICS.location
    assert (
        finding.advice
        == "Move what train.py:33 in `accuracy` does out of the loop, or into the loader's workers."
    )


def test_what_the_model_answers_is_not_sent_to_workers_that_do_not_have_it() -> None:
    weights = LineCalls(METRICS.location, "other", *FACTS, weights=60)
    assert check(3.0, METRICS, line_calls=(weights,)).advice.endswith("the loop, or do it every few steps.")
    assert "workers" in check(3.0, METRICS, line_calls=(ELSEWHERE,)).advice


def test_what_the_loss_may_need_is_not_sent_out_of_the_loop() -> None:
    loss = LineCalls(METRICS.location, "other", *FACTS, graphed=True)
    for lines in ((loss,), ()):  # known to record a graph, or not looked at closely
        advice = check(3.0, METRICS, line_calls=lines).advice
        assert advice.startswith("Unless the loss needs what train.py:33 in `accuracy` computes")
        assert "workers" not in advice


def test_an_update_by_hand_is_sent_to_an_optimizer() -> None:
    by_hand = replace(METRICS, call="param.data.add_")
    advice = check(3.0, by_hand, loader=None, optimizers=()).advice
    assert advice.startswith("Where train.py:33 updates the parameters, let an optimizer do it")
    assert "optimizer" not in check(3.0, by_hand, optimizers=(an_optimizer(),)).advice
    assert "optimizer" not in check(3.0, METRICS, loader=None, optimizers=()).advice


def test_without_a_loader_there_are_no_workers_to_send_it_to() -> None:
    facts = {"loader": None, "line_calls": (ELSEWHERE,)}
    assert check(3.0, METRICS, **facts).advice.endswith("the loop, or do it every few steps.")


def test_from_a_tenth_of_the_step_it_is_a_small_thing_and_from_a_fifth_more() -> None:
    assert check(1.0).state is State.PASSED  # 0.1 ms of it is the loop itself
    assert check(1.15).severity is Severity.LOW
    assert check(2.05).severity is Severity.LOW
    assert check(2.15).severity is Severity.MEDIUM
    assert check(4.5).severity is Severity.HIGH


def test_a_tiny_step_is_not_blamed_for_the_loop_around_it() -> None:
    phases = StepPhases(step_ms=0.4, forward_ms=0.3, other_ms=0.1, steps=50)
    finding = check(0.0, phases=phases)
    assert (finding.state, finding.title) == (
        State.PASSED,
        "25 % of the step is in no known part: 0.0 % beside the loop itself",
    )


def test_what_watching_adds_is_not_the_programs() -> None:
    assert check(1.5, watching=0.05).state is State.PASSED


def test_without_a_loader_the_time_may_be_the_data_unless_a_line_is_known() -> None:
    assert check(6.0, loader=None).state is State.NOT_APPLICABLE
    assert check(6.0, METRICS, loader=None).severity is Severity.HIGH


def test_without_a_line_the_place_to_look_is_told() -> None:
    finding = check(3.0)
    assert finding.location is None and "`next(loader)`" in finding.advice


def test_a_line_that_starts_the_update_is_not_where_the_rest_is() -> None:
    update = HotSpot("optimizer", Location("train.py", 20), 1.0)
    beside = HotSpot("other", update.location, 0.8)
    assert check(3.0, update, beside, HotSpot("other", Location("train.py", 22), 0.2)).location == Location(
        "train.py", 22
    )
    assert check(3.0, update, beside).location is None
    assert check(3.0, update, beside, loader=None).state is State.NOT_APPLICABLE


def test_what_a_library_does_around_a_trained_model_is_not_a_line_of_the_loop() -> None:
    place = Location("serve.py", 16)
    spots = HotSpot("other", place, 1.0), HotSpot("forward", place, 0.9)
    profile = replace(a_served_profile(phases_ms={"forward": 6.0, "other": 4.0}), hotspots=spots)
    assert UnattributedTime().check(profile).state is State.PASSED
    own = UnattributedTime().check(replace(profile, hotspots=spots[:1]))
    assert own.fired and "first request" in own.advice and "worker" not in own.advice


def test_exchanges_that_the_program_makes_itself_are_a_known_part() -> None:
    ranks = tuple(RankFacts(rank, 10.0, communication_ms=7.5, exposed_ms=7.5) for rank in range(2))
    finding = check(8.0, METRICS, ranks=ranks)
    assert finding.state is State.PASSED and "beside exchanges between ranks" in finding.title
    wrapped = check(8.0, METRICS, ranks=ranks, roots=(a_root(parallel="DistributedDataParallel"),))
    assert wrapped.fired
