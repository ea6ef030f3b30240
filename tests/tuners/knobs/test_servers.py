import pytest
from builders import a_profile

from advisor.tuners.knob import Semantics
from advisor.tuners.knobs.servers import Servers
from advisor.tuners.strategies.parameter_server import ParameterServer


def test_one_server_is_what_the_strategy_starts_by_itself() -> None:
    assert Servers().choices(a_profile()) == [1, 2]
    assert Servers().present(a_profile()) == Servers.default == ParameterServer().servers({})


def test_servers_are_spelt_as_numbers() -> None:
    assert Servers().parse("2") == 2
    with pytest.raises(ValueError, match="'3' is not one of '1', '2'"):
        Servers().parse("3")


def test_it_acts_under_a_parameter_server_only_and_keeps_the_numbers() -> None:
    assert Servers.strategies == ("parameter_server",)
    assert Servers.semantics is Semantics.ROUNDING


def test_what_the_user_writes() -> None:
    assert "the last 2 ranks are servers" in Servers().change(2).snippet
