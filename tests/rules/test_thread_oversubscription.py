from builders import a_loader, a_machine, a_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import HostFacts, RankFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.thread_oversubscription import ThreadOversubscription

BUSY = {"item_ms": 1.0, "cpu_share": 1.0, "num_workers": 4}  # 32 ms of items for a step of 10 ms
STEP = {"forward": 5.0, "backward": 5.0}


def two_ranks() -> tuple[RankFacts, ...]:
    return RankFacts(0, 10.0), RankFacts(1, 10.0)


def test_more_threads_than_cpus_are_reported_with_the_number_that_fits() -> None:
    profile = a_profile(a_machine(cpus_allowed=2), run=RunFacts(num_threads=4))
    finding = ThreadOversubscription().check(profile)
    assert (finding.state, finding.severity, finding.kind) == (
        State.DIAGNOSTIC,
        Severity.MEDIUM,
        Kind.RISK,
    )
    assert finding.title == "4 threads compute on 2 CPUs"
    assert "`torch.set_num_threads(2)`" in finding.advice and "rounding" in finding.advice


def test_as_many_threads_as_cpus_are_right() -> None:
    finding = ThreadOversubscription().check(a_profile(run=RunFacts(num_threads=4)))
    assert finding.state is State.PASSED
    assert finding.title == "4 threads compute on 4 CPUs"


def test_the_threads_of_all_ranks_count() -> None:
    profile = a_profile(run=RunFacts(num_threads=4), ranks=two_ranks())
    finding = ThreadOversubscription().check(profile)
    assert finding.title == "2 ranks with 4 threads each compute on 4 CPUs"
    assert "`torch.set_num_threads(2)` in every rank" in finding.advice


def test_more_ranks_than_cpus_ask_for_fewer_ranks() -> None:
    profile = a_profile(a_machine(cpus_allowed=1), run=RunFacts(num_threads=1), ranks=two_ranks())
    finding = ThreadOversubscription().check(profile)
    assert finding.title == "2 ranks with 1 thread each compute on 1 CPU"
    assert "`torchrun --nproc-per-node=1`" in finding.advice


def test_workers_that_compute_take_cpus_from_the_threads() -> None:
    profile = a_profile(phases_ms=STEP, loader=a_loader(**BUSY), run=RunFacts(num_threads=4))
    finding = ThreadOversubscription().check(profile)
    assert finding.title == "7.2 CPUs are asked for by threads and workers, of 4 allowed"
    assert "`torch.set_num_threads(1)`" in finding.advice


def test_workers_that_wait_for_storage_take_none() -> None:
    loader = a_loader(**{**BUSY, "cpu_share": 0.05})
    profile = a_profile(phases_ms=STEP, loader=loader, run=RunFacts(num_threads=4))
    assert ThreadOversubscription().check(profile).state is State.PASSED


def test_workers_that_have_little_to_do_are_no_reason() -> None:
    profile = a_profile(
        phases_ms=STEP, loader=a_loader(**{**BUSY, "item_ms": 0.0001}), run=RunFacts(num_threads=3)
    )
    assert ThreadOversubscription().check(profile).state is State.PASSED


def test_one_busy_worker_beside_threads_on_all_cpus_is_usual() -> None:
    loader = a_loader(num_workers=4, item_ms=0.3, cpu_share=1.0)  # 9.6 ms of items for a step of 10 ms
    profile = a_profile(phases_ms=STEP, loader=loader, run=RunFacts(num_threads=4))
    assert ThreadOversubscription().check(profile).state is State.PASSED


def test_a_quota_that_is_used_up_asks_for_fewer_threads() -> None:
    profile = a_profile(run=RunFacts(num_threads=4), host=HostFacts(throttled_share=0.3))
    finding = ThreadOversubscription().check(profile)
    assert finding.title == "30 % of the CPU quota's periods are used up by 4 threads"
    assert "`torch.set_num_threads(3)`" in finding.advice


def test_one_thread_has_none_to_give_up_for_a_quota() -> None:
    profile = a_profile(run=RunFacts(num_threads=1), host=HostFacts(throttled_share=0.3))
    assert ThreadOversubscription().check(profile).state is State.PASSED


def test_threads_of_a_program_on_the_gpu_are_not_judged() -> None:
    profile = a_profile(device="cuda:0", run=RunFacts(num_threads=64))
    assert ThreadOversubscription().check(profile).state is State.NOT_APPLICABLE
