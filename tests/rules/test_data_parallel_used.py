from builders import A_GPU, a_machine, a_profile, a_root

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.data_parallel_used import DataParallelUsed

TWO_GPUS = a_machine(cuda=True, gpus=(A_GPU, A_GPU))
HERE = Location("train.py", 9)


def test_one_process_that_drives_two_devices_is_reported() -> None:
    profile = a_profile(TWO_GPUS, roots=(a_root(parallel="DataParallel", location=HERE),))
    finding = DataParallelUsed().check(profile)
    assert finding.title == "2 devices are driven by one process (nn.DataParallel)"
    assert (finding.state, finding.severity, finding.location) == (State.DIAGNOSTIC, Severity.MEDIUM, HERE)
    assert "`DistributedDataParallel(model, device_ids=[rank])`" in finding.advice


def test_one_device_makes_it_harmless() -> None:
    machine = a_machine(cuda=True, gpus=(A_GPU,))
    profile = a_profile(machine, roots=(a_root(parallel="DataParallel"),))
    assert DataParallelUsed().check(profile).state is State.NOT_APPLICABLE


def test_a_process_per_device_is_right() -> None:
    profile = a_profile(TWO_GPUS, roots=(a_root(parallel="DistributedDataParallel"),))
    finding = DataParallelUsed().check(profile)
    assert (finding.state, finding.title) == (State.PASSED, "0 of 1 models use nn.DataParallel")


def test_without_a_model_nothing_is_said() -> None:
    assert DataParallelUsed().check(Profile(TWO_GPUS)).state is State.NOT_APPLICABLE
