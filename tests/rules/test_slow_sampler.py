from typing import Any

from builders import a_loader, a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.rules import RULES
from advisor.rules.input_bound import InputBound
from advisor.rules.slow_sampler import SlowSampler

LINE = Location("/home/me/train.py", 41, "__iter__")


def profile(draw_ms: float | None, wait_ms: float = 6.0, **facts: Any) -> Any:
    loader = a_loader(num_workers=2, draw_ms=draw_ms, draw_line=LINE, own_batch_sampler=True, **facts)
    return a_profile(phases_ms={"input_wait": wait_ms}, loader=loader)


def check(draw_ms: float | None, wait_ms: float = 6.0) -> Finding:
    return SlowSampler().check(profile(draw_ms, wait_ms))


def test_the_line_that_draws_is_named() -> None:
    finding = check(5.0)
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.HIGH)
    assert finding.title == "50 % of each step draws the numbers of items in the main process"
    assert finding.location == LINE and "workers do not draw" in finding.advice


def test_what_is_not_waited_for_costs_nothing() -> None:
    assert check(5.0, wait_ms=0.3).state is State.PASSED


def test_an_ordinary_sampler_passes() -> None:
    assert check(0.02).state is State.PASSED


def test_before_it_was_looked_at_nothing_is_said() -> None:
    assert check(None).state is State.NOT_APPLICABLE


def of_epoch(first_draw_ms: float, draw_ms: float = 0.01, **facts: Any) -> Finding:
    loader = a_loader(draw_ms=draw_ms, first_draw_ms=first_draw_ms, epoch_wall_s=2.0, **facts)
    return SlowSampler().check(a_profile(phases_ms={"input_wait": 4.0}, loader=loader))


def test_what_is_drawn_once_an_epoch_is_a_share_of_the_epoch() -> None:
    finding = of_epoch(500.0, sampler_type="Windows", sampler_line=LINE)
    assert finding.title == (
        "25 % of each epoch draws its numbers before the first batch (500 ms in `Windows` at "
        "/home/me/train.py:41)"
    )
    assert finding.location == LINE and "in place of a list of all" in finding.advice
    assert finding.ceiling is not None and finding.ceiling.of == "run"
    assert of_epoch(50.0, sampler_type="Windows", sampler_line=LINE).state is State.PASSED


def test_first_draws_of_short_epochs_are_no_draws_of_each_step() -> None:
    assert "of each epoch" in of_epoch(500.0, draw_ms=3.0).title
    assert "of each step" in of_epoch(120.0, draw_ms=3.0).title


def test_torchs_own_samplers_are_told_what_takes_their_place() -> None:
    assert "`total = weights.cumsum(0)`" in of_epoch(500.0, sampler_type="WeightedRandomSampler").advice
    assert "torch.randperm(len(data)).split" in of_epoch(500.0, sampler_type="RandomSampler").advice


def test_the_wait_that_it_explains_asks_for_nothing_else() -> None:
    told = [finding for finding in advise(profile(5.0), RULES) if finding.fired]
    assert [finding.rule for finding in told[:2]] == ["slow_sampler", "input_bound"]
    assert told[0].explains == "input_bound"
    assert told[1].knobs == () and "worker" not in told[1].advice
    slow_items = InputBound().check(profile(0.01))
    assert "num_workers" in slow_items.knobs
