import pytest
from builders import a_machine, a_profile

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.schedule import Schedule


def test_gpipe_comes_first() -> None:
    assert Schedule().choices(a_profile()) == ["gpipe", "1f1b"]
    assert Schedule().present(a_profile()) == "gpipe"


def test_a_machine_for_one_process_has_no_stages() -> None:
    with pytest.raises(Refused, match="no stages"):
        Schedule().choices(a_profile(a_machine(cpus_allowed=1)))


@pytest.mark.parametrize(("value", "name"), [("gpipe", "ScheduleGPipe"), ("1f1b", "Schedule1F1B")])
def test_the_user_writes_torchs_class(value: str, name: str) -> None:
    import torch.distributed.pipelining

    snippet = Schedule().change(value).snippet
    assert f"schedule = {name}(" in snippet
    assert hasattr(torch.distributed.pipelining, name)
    compile(snippet, "snippet", "exec")
