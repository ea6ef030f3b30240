from collections.abc import Iterator

import pytest
import torch
from builders import a_profile, a_run
from small_training import losses_of

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.detect_anomaly import DetectAnomaly

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected")


@pytest.fixture
def run() -> Iterator[Run]:
    """Anomaly detection is held off; at the end torch is as it was."""
    kept = torch.set_anomaly_enabled
    run = a_run(detect_anomaly=DetectAnomaly())
    run.configure({"detect_anomaly": "off"})
    run.process()
    yield run
    run.configure({})
    assert torch.set_anomaly_enabled is kept
    torch.autograd.set_detect_anomaly(False)


def make_a_gradient_that_is_no_number() -> None:
    zero = torch.zeros(1, requires_grad=True)
    (zero.sqrt() * 0).sum().backward()


def test_a_program_that_asks_for_it_does_not_get_it(run: Run) -> None:
    with torch.autograd.detect_anomaly():
        make_a_gradient_that_is_no_number()
    torch.autograd.set_detect_anomaly(True)
    make_a_gradient_that_is_no_number()
    assert run.applied == {"detect_anomaly"}


def test_the_program_sees_what_it_asked_for(run: Run) -> None:
    with torch.autograd.detect_anomaly():
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()


def test_a_live_switch_gives_back_what_the_program_asks_for_now(run: Run) -> None:
    torch.autograd.set_detect_anomaly(True)
    run.configure({})
    with pytest.raises(RuntimeError, match="nan values"):
        make_a_gradient_that_is_no_number()


def test_it_can_be_switched_again_and_again(run: Run) -> None:
    torch.autograd.set_detect_anomaly(True)
    run.configure({})
    run.configure({"detect_anomaly": "off"})
    make_a_gradient_that_is_no_number()


def test_the_losses_stay_the_same_bit_by_bit(run: Run) -> None:
    run.configure({})
    torch.autograd.set_detect_anomaly(True)
    slow = losses_of()
    run.configure({"detect_anomaly": "off"})
    assert losses_of(run) == slow


def test_it_is_offered_where_the_program_uses_it() -> None:
    assert DetectAnomaly().choices(a_profile(run=RunFacts(debug=("profiler", "anomaly")))) == ["on", "off"]


@pytest.mark.parametrize("facts", [None, RunFacts(debug=("profiler",))])
def test_elsewhere_there_is_nothing_to_switch_off(facts: RunFacts | None) -> None:
    with pytest.raises(Refused, match="does not use anomaly detection"):
        DetectAnomaly().choices(a_profile(run=facts))
    with pytest.raises(Refused, match="does not use anomaly detection"):
        DetectAnomaly().check("off", a_profile(run=facts))


def test_what_the_user_writes_switches_it_off() -> None:
    torch.autograd.set_detect_anomaly(True)
    exec(DetectAnomaly().change("off").snippet, {"torch": torch})
    assert not torch.is_anomaly_enabled()
