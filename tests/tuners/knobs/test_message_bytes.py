import inspect

import pytest
from builders import a_profile

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.knobs.message_bytes import MessageBytes
from advisor.tuners.mechanisms.parameter_server.served_optimizer import ServedOptimizer


def test_the_size_that_workers_use_by_themselves_comes_first() -> None:
    first, *others = MessageBytes().choices(a_profile())
    assert first == MessageBytes.default == MessageBytes().present(a_profile())
    assert inspect.signature(ServedOptimizer).parameters["message_bytes"].default == first
    assert min(others) < first < max(others)


def test_sizes_are_spelt_in_bytes() -> None:
    assert MessageBytes().parse("65536") == 65536
    with pytest.raises(ValueError, match="'0' is not one of"):
        MessageBytes().parse("0")


def test_it_acts_under_a_parameter_server_only_and_keeps_the_numbers() -> None:
    assert MessageBytes.strategies == ("parameter_server",)
    assert MessageBytes.semantics is Semantics.EXACT


def test_what_the_user_writes() -> None:
    assert MessageBytes().change(2**20) == Change("ServedOptimizer(..., message_bytes=1048576)")
