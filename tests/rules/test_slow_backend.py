from dataclasses import replace
from typing import Any

from builders import A_GPU, a_machine, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.machine import Gpu
from advisor.profiles.facts.observed import RankFacts
from advisor.rules.slow_backend import SlowBackend


def check(gpu: Gpu = A_GPU, **rank: Any) -> Finding:
    facts = {"backend": "gloo", "device_tensors": True, "communication_ms": 4.0, "exposed_ms": 4.0, **rank}
    ranks = tuple(RankFacts(number, 10.0, **facts) for number in range(2))
    return SlowBackend().check(a_profile(a_machine(cuda=True, gpus=(gpu, gpu)), ranks=ranks))


def test_gpu_tensors_over_gloo_are_reported_with_at_most_medium() -> None:
    finding = check()
    assert finding.title == "2 of 2 ranks send GPU tensors through gloo, 40 % of each step"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.MEDIUM)
    assert finding.ceiling is not None and finding.ceiling.source == "model"
    assert '`init_process_group("nccl")`' in finding.advice


def test_without_times_of_the_exchange_no_ceiling_is_claimed() -> None:
    finding = check(communication_ms=0.0, exposed_ms=0.0)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)


def test_nccl_for_gpu_tensors_is_right() -> None:
    assert check(backend="cpu:gloo,cuda:nccl").state is State.PASSED
    assert check(backend="nccl").state is State.PASSED


def test_gloo_for_tensors_of_the_cpu_is_right() -> None:
    assert check(device_tensors=False).state is State.PASSED


def test_a_device_that_nccl_does_not_know_is_not_judged() -> None:
    assert check(replace(A_GPU, capability=(3, 0))).state is State.NOT_APPLICABLE


def test_without_ranks_gpus_or_backend_nothing_is_said() -> None:
    assert check(backend=None).state is State.NOT_APPLICABLE
    on_cpu = a_profile(ranks=(RankFacts(0, 10.0, backend="gloo", device_tensors=False),))
    assert SlowBackend().check(on_cpu).state is State.NOT_APPLICABLE
