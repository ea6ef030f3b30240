"""What is said of a nominee that was not confirmed."""

import math

import pytest

from advisor.stages.confirming import unconfirmed
from advisor.tuners.comparing.looks import confirm
from advisor.tuners.comparing.measure import Estimate


def told(*instances: list[float]) -> str:
    """Of a confirmation that can afford just these processes."""
    left = [*instances, None]
    decision, _ = confirm(lambda index: left[index], min_gain=0.02, level=0.99)
    assert decision.verdict != "confirmed"
    return unconfirmed.why("amp=bf16", decision, 0.02)


def test_without_a_process_no_ratio_is_made_up() -> None:
    decision, _ = confirm(lambda index: None, min_gain=0.02, level=0.99)
    assert unconfirmed.measured(decision) is None
    assert told() == "amp=bf16 was not confirmed: the budget ended before its first process"


def test_one_process_gives_a_ratio_without_an_interval() -> None:
    assert told([math.log(1.42)] * 3) == (
        "amp=bf16 gave 1.42x in one process: the budget ended before there were more"
    )


def test_two_processes_that_disagree_determine_nothing() -> None:
    assert told([-0.2] * 3, [0.4] * 3) == (
        "amp=bf16: no clear difference (0.2 to 6.4); the budget ended before the confirmation was complete"
    )


def test_a_gain_of_which_the_first_look_is_not_sure_is_no_lack_of_gain() -> None:
    spread = [[math.log(gain)] * 3 for gain in (1.08, 1.34, 1.10, 1.36, 1.16, 1.30)]
    said = told(*spread)
    assert said.startswith("amp=bf16: 1.2x (1.1 to 1.4)")
    assert said.endswith("; the budget ended before there were enough processes to be sure")


def test_no_gain_beyond_noise_is_told_with_its_interval() -> None:
    steady = [[0.001 * (-1) ** at] * 3 for at in range(40)]
    said = told(*steady)
    assert said.startswith("amp=bf16: no clear difference (")
    assert said.endswith("; more processes would hardly show the 2.0 % that are asked for")


def test_what_lies_below_what_is_asked_for_is_told_so() -> None:
    said = told(*[[-0.3 + 0.001 * (-1) ** at] * 3 for at in range(40)])
    assert said.endswith("; not above the 2.0 % that are asked for beyond noise")


@pytest.mark.parametrize("instances", [1, 2, 6])
def test_what_processes_measured_is_kept(instances: int) -> None:
    left = [*([[0.01, 0.02]] * instances), None]
    decision, _ = confirm(lambda index: left[index], min_gain=0.5, level=0.99)
    assert isinstance(unconfirmed.measured(decision), Estimate)


def test_what_had_no_room_is_told_with_what_was_seen_and_what_would_do() -> None:
    told = unconfirmed.no_room("quantization=int8_dynamic", math.log(3.0), "`--budget 6m`")
    assert "int8_dynamic (about 3.00x in the search) could not be confirmed" in told
    assert told.endswith("; `--budget 6m` could")
    assert "in the search" not in unconfirmed.no_room("quantization=int8_dynamic", 0.0, "`--budget 6m`")
