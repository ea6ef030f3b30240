from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from builders import a_gpu_profile, a_profile, a_run

from advisor.profiles.facts.observed import Denormals
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.knobs.flush_denormal import FlushDenormal
from advisor.tuners.space.space import build_space

CAN_FLUSH = torch.set_flush_denormal(False)  # whether there is a switch at all
can_flush = pytest.mark.skipif(not CAN_FLUSH, reason="this processor has no such switch")


@pytest.fixture
def switch_kept() -> Iterator[None]:
    yield
    torch.set_flush_denormal(False)


def keeps_denormals() -> bool:
    return bool(torch.tensor([1e-20]).mul(1e-20) != 0)


@can_flush
def test_products_that_are_too_small_become_zero(switch_kept: None) -> None:
    run = a_run(flush_denormal=FlushDenormal())
    run.configure({"flush_denormal": "on"})
    before = keeps_denormals()
    run.process()
    assert (before, keeps_denormals()) == (True, False)
    assert run.unanswered() == []


@can_flush
def test_threads_follow_that_are_started_later_and_no_others(switch_kept: None) -> None:
    """Why it cannot be switched while a program runs."""
    with ThreadPoolExecutor(1) as earlier, ThreadPoolExecutor(1) as later:
        earlier.submit(keeps_denormals).result()
        FlushDenormal().process("on")
        kept = [pool.submit(keeps_denormals).result() for pool in (earlier, later)]
    assert kept == [True, False]
    assert not FlushDenormal.live


def test_a_program_on_the_cpu_is_offered_it() -> None:
    assert FlushDenormal().choices(a_profile()) == ["off", "on"]


def test_a_model_on_the_gpu_is_left_alone() -> None:
    with pytest.raises(Refused, match="on the GPU"):
        FlushDenormal().choices(a_gpu_profile())


def test_it_is_tried_where_denormal_numbers_were_met() -> None:
    met, few = (Denormals("lstm.weight", share, "state", 0.5, 1.0) for share in (0.2, 0.001))
    knob = FlushDenormal()
    assert knob.needless(replace(a_profile(), denormals=met)) is None
    for nothing in (a_profile(), replace(a_profile(), denormals=few)):
        assert "no denormal numbers were met" in (knob.needless(nothing) or "")
    assert "flush_denormal" not in build_space(KNOBS, a_profile()).choices
    assert "flush_denormal" in build_space(KNOBS, a_profile(), named={"flush_denormal": None}).choices
