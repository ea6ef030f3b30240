from typing import Any

import pytest
import torch
from builders import a_device, a_gpu_profile, a_rich_profile, a_run, a_window

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Copies
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.transfers import Transfers
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.non_blocking import ENOUGH, NonBlocking


class Batch:
    """Stands for a tensor in memory of one kind: without an accelerator none can be pinned."""

    def __init__(self, pinned: bool) -> None:
        self.pinned = pinned
        self.asked: list[tuple[Any, ...]] = []

    def is_pinned(self) -> bool:
        return self.pinned

    def to(self, *args: Any, **kwargs: Any) -> Any:
        self.asked.append((*args, kwargs))
        return "there"


def switched_on() -> Run:
    run = a_run(non_blocking=NonBlocking())
    run.configure({"non_blocking": "on"})
    return run


def transfer(run: Run, batch: Any) -> Any:
    return run.transfer(batch, "cuda:0")


def test_a_pinned_batch_is_copied_without_waiting() -> None:
    batch = Batch(pinned=True)
    assert transfer(switched_on(), batch) == "there"
    assert batch.asked == [("cuda:0", {"non_blocking": True})]


def test_a_program_that_does_not_wait_can_be_made_to_wait() -> None:
    batch, run = Batch(pinned=True), a_run({"non_blocking": "on"}, non_blocking=NonBlocking())
    run.configure({"non_blocking": "off"})
    assert transfer(run, batch) == "there"
    assert batch.asked == [("cuda:0", {})]


def test_a_batch_in_ordinary_memory_is_left_to_the_program() -> None:
    batch = Batch(pinned=False)
    assert transfer(switched_on(), batch) is batch
    assert batch.asked == []


def test_a_program_that_pins_nothing_is_answered_with_the_reason() -> None:
    run = switched_on()
    for _ in range(ENOUGH):
        assert run.refused == {}
        transfer(run, Batch(pinned=False))
    assert "needs pin_memory" in run.refused["non_blocking"]


def test_small_copies_from_ordinary_memory_beside_pinned_batches_do_not_matter() -> None:
    run = switched_on()
    transfer(run, Batch(pinned=True))
    for _ in range(2 * ENOUGH):
        transfer(run, Batch(pinned=False))
    assert run.refused == {}


def test_the_programs_own_calls_go_through_it_and_arrive() -> None:
    run, scope = switched_on(), Scope()
    scope.enter()
    transfers = Transfers(run, scope, hosts=frozenset({"cpu"}))  # meta stands for an accelerator
    transfers.install()
    try:
        moved = [torch.ones(2).to("meta") for _ in range(ENOUGH)]
    finally:
        transfers.remove()
    assert {tensor.device.type for tensor in moved} == {"meta"}
    assert "needs pin_memory" in run.refused["non_blocking"]


def copying(synchronous: float | None) -> Profile:
    copies = Copies("h2d", count=1.0, ms=1.0, bytes=2.0**20, pageable=0.0, synchronous=synchronous)
    return a_gpu_profile(window=a_window(device=a_device(copies=(copies,))))


@pytest.mark.parametrize("profile", [a_gpu_profile(), copying(None), copying(0.5), copying(1.0)])
def test_it_is_offered_where_copies_are_waited_for_or_nothing_is_known(profile: Profile) -> None:
    assert NonBlocking().choices(profile) == ["off", "on"]


def test_a_program_that_waits_for_no_copy_has_it_already() -> None:
    assert NonBlocking().present(copying(0.0)) == "on"
    with pytest.raises(Refused, match="without waiting already"):
        NonBlocking().choices(copying(0.0))


def test_on_a_cpu_nothing_is_copied() -> None:
    with pytest.raises(Refused, match="needs an accelerator"):
        NonBlocking().choices(a_rich_profile())
    with pytest.raises(Refused, match="needs an accelerator"):
        NonBlocking().check("on", a_rich_profile())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_same_numbers_arrive() -> None:
    run, scope = switched_on(), Scope()
    scope.enter()
    transfers = Transfers(run, scope)
    transfers.install()
    rows = torch.randn(64, 64).pin_memory()
    try:
        moved = [rows.to("cuda"), rows.cuda(), rows.to("cuda", torch.float64)]
    finally:
        transfers.remove()
    assert [tensor.dtype for tensor in moved] == [torch.float32, torch.float32, torch.float64]
    assert all(torch.equal(tensor.cpu().float(), rows) for tensor in moved)
    assert run.applied == {"non_blocking"}


def test_what_the_user_writes_moves_a_batch() -> None:
    names: dict[str, Any] = {"batch": torch.ones(2), "device": "meta"}
    exec(NonBlocking().change("on").snippet, names)
    assert names["batch"].device.type == "meta"
