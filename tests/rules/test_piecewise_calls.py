from typing import Any

import pytest
from builders import a_loader, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import GradientFacts, HotSpot, LineCalls, Location
from advisor.rules.piecewise_calls import PiecewiseCalls

LINE = Location("/home/me/net.py", 23, "forward")


def a_line(**facts: Any) -> LineCalls:
    return LineCalls(**{
        "location": LINE, "phase": "forward", "functions": ("linear", "tanh"), "calls": 256, "share": 0.8,
        "repeated": 0, "repeated_across": 0, "repeated_share": 0.0, "turns": 128, "chain": 2, "weights": 4,
        "graphed": True, **facts,
    })  # fmt: skip


def judged(*lines: LineCalls, **facts: Any) -> Finding:
    phases = {"forward": 3.0, "backward": 4.0, "other": 3.0}
    return PiecewiseCalls().check(a_profile(phases_ms=phases, line_calls=lines, **facts))


def check(**facts: Any) -> Finding:
    return judged(a_line(**facts))


def test_a_layer_called_for_each_row_is_named_with_its_line() -> None:
    finding = check()
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.56)
    assert (finding.severity, finding.location) == (Severity.HIGH, LINE)
    assert "256 calls at /home/me/net.py:23" in finding.title


def test_a_recurrence_over_time_passes() -> None:
    assert check(chain=128).state is State.PASSED


def test_heads_with_weights_of_their_own_pass() -> None:
    assert check(weights=128).state is State.PASSED
    assert check(weights=0, graphed=False).state is State.PASSED  # what is done to weights themselves


def test_a_loss_over_pairs_is_named_without_a_word_of_layers() -> None:
    finding = check(weights=0, phase="other", functions=("__getitem__", "mean"))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.24)
    assert "layer" not in finding.title + finding.advice
    assert "`__getitem__`, `mean` over a dimension" in finding.advice
    assert check(weights=0, turns=12).state is State.PASSED  # scales of a loss


def test_calls_of_a_trainer_are_not_those_of_the_line_that_starts_it() -> None:
    met = [HotSpot(phase, LINE, 0.5) for phase in ("forward", "optimizer")]
    assert judged(a_line(), hotspots=tuple(met)).state is State.PASSED
    assert judged(a_line(), hotspots=tuple(met[:1])).fired


def test_a_few_turns_or_little_time_pass() -> None:
    assert check(turns=6, chain=1).state is State.PASSED
    assert check(share=0.05).state is State.PASSED


def test_without_followed_values_nothing_is_said() -> None:
    assert PiecewiseCalls().check(a_profile(phases_ms={"forward": 3.0})).state is State.NOT_APPLICABLE


def test_the_line_of_a_layer_is_named_before_that_of_its_loss() -> None:
    loss = a_line(location=Location("train.py", 40), phase="other", weights=0, share=0.95)
    assert judged(loss, a_line(share=0.3)).location == LINE


def test_one_sample_for_each_backward_asks_for_batches_or_for_gradients_of_each() -> None:
    backwards = GradientFacts(per_update=32)
    batched = judged(a_line(), gradients=backwards, loader=a_loader(batch_size=1)).advice
    assert "`DataLoader(..., batch_size=32)`" in batched and "32 backwards before each update" in batched
    assert "torch.func.vmap" in judged(a_line(), gradients=backwards).advice
    assert "vmap" not in judged(a_line()).advice
