import pytest
from builders import a_gpu_profile, a_profile

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.fsdp_offload import FsdpOffload


def test_a_device_may_leave_its_part_with_the_host() -> None:
    knob = FsdpOffload()
    assert knob.choices(a_gpu_profile()) == ["off", "on"]
    assert knob.present(a_gpu_profile()) == "off"


def test_without_an_accelerator_there_is_nothing_to_leave() -> None:
    with pytest.raises(Refused, match="without an accelerator"):
        FsdpOffload().choices(a_profile())
    FsdpOffload().check("off", a_profile())


@pytest.mark.parametrize("value", ["off", "on"])
def test_what_the_user_writes_is_code(value: str) -> None:
    compile(FsdpOffload().change(value).snippet, "snippet", "exec")
