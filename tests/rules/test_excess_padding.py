from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_profile, a_served_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import StepPhases
from advisor.rules.excess_padding import ExcessPadding

COMPUTING = {"forward": 3.0, "backward": 5.0, "optimizer": 2.0}


def check(share: float | None, **facts: Any) -> Finding:
    loader = a_loader(padding_share=share, **facts)
    return ExcessPadding().check(a_profile(phases_ms=COMPUTING, loader=loader))


def test_batches_that_are_mostly_padding_are_reported() -> None:
    finding = check(0.7, shapes=1)
    assert finding.title == "70 % of the tokens are padding"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.56)
    assert finding.ceiling.source == "model"
    assert finding.severity is Severity.MEDIUM
    assert "pad_sequence" in finding.advice and "shapes then vary" in finding.advice


def test_batches_padded_to_their_longest_sample_are_to_hold_similar_lengths() -> None:
    finding = check(0.7, shapes=12)
    assert "similar length" in finding.advice and "changes the order" in finding.advice


def test_up_to_half_of_the_tokens_passes() -> None:
    assert check(0.5).state is State.PASSED
    assert check(0.51).fired


def test_on_a_gpu_the_host_waits_while_tokens_are_computed() -> None:
    phases = StepPhases(10.0, forward_ms=1.0, backward_ms=1.0, sync_ms=7.0, steps=20)
    finding = ExcessPadding().check(a_gpu_profile(phases=phases, loader=a_loader(padding_share=0.6)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.54)


def test_missing_facts_are_named() -> None:
    assert check(None).title.startswith("padding: needs batches of token ids")
    assert ExcessPadding().check(a_profile(loader=a_loader(padding_share=0.7))).state is State.NOT_APPLICABLE


def test_requests_of_unlike_length_are_to_be_sorted() -> None:
    def of_requests(saved: float) -> Finding:
        profile = a_served_profile()
        assert profile.run is not None
        return ExcessPadding().check(replace(profile, run=replace(profile.run, requests_padding=saved)))

    finding = of_requests(0.3)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)
    assert finding.knobs == ("length_bucketing",) and "like length" in finding.advice
    assert of_requests(0.05).state is State.PASSED
