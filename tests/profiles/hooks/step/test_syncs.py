"""Calls that wait for the device, counted where the program makes them."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from advisor.profiles.events import Run
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.syncs import METHODS, Syncs
from advisor.profiles.hooks.surroundings.logs import Logs
from advisor.profiles.hooks.watch import Watch

PLACES: list[tuple[Any, str]] = [
    *((torch.Tensor, name) for name in (*METHODS, "to")), (torch.cuda, "synchronize"),
    (torch.cuda, "empty_cache"), (torch.cuda.Stream, "synchronize"), (torch.cuda.Event, "synchronize"),
]  # fmt: skip


@pytest.fixture
def clock() -> Clock:
    return Clock(lambda step: None)


@pytest.fixture
def syncs(clock: Clock) -> Iterator[Syncs]:
    scope = Scope()
    scope.enter()
    syncs = Syncs(clock, scope)
    yield syncs
    syncs.remove()


def kinds(syncs: Syncs) -> Counter[str]:
    return Counter(point.kind for point in syncs.facts(1) for _ in range(int(point.count_per_step)))


def test_every_way_of_reading_a_tensor_counts_once(syncs: Syncs) -> None:
    one, many = torch.tensor(1), torch.arange(3)
    syncs.install()
    one.item(), float(one), int(one), bool(one), range(one), f"{one}", repr(many)
    many.tolist(), many.numpy(), many.cpu(), many.nonzero()
    if one > 0:
        torch.cuda.empty_cache()
    syncs.remove()
    assert kinds(syncs) == Counter(
        item=1, float=1, int=1, index=1, format=1, repr=1, tolist=1, numpy=1, cpu=1, nonzero=1, bool=2,
        empty_cache=1,
    )  # fmt: skip


def test_the_line_of_the_program_is_named_and_counted_per_step(syncs: Syncs) -> None:
    loss = torch.tensor(1.5)
    syncs.install()
    total = sum(loss.item() for _ in range(6))
    syncs.remove()
    (point,) = syncs.facts(steps=3)
    assert total == 9.0 and point.location is not None
    assert (point.kind, point.count_per_step, point.where) == ("item", 2.0, "user")
    assert point.location.file == __file__ and point.location.line > 0
    assert point.blocked_ms is None  # nothing waits without a device


def test_printing_a_tensor_counts_once_where_it_is_printed(
    syncs: Syncs, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    scope = Scope()
    scope.enter()
    logs = Logs(clock, scope)
    logs.install()
    syncs.install()
    print(torch.arange(4.0))
    syncs.remove()
    logs.remove()
    (point,) = syncs.facts(1)
    assert capsys.readouterr().out == "tensor([0., 1., 2., 3.])\n"
    assert point.location is not None
    assert (point.kind, point.location.file, point.count_per_step) == ("repr", __file__, 1)


def test_what_an_optimizer_or_a_loader_reads_is_set_apart(syncs: Syncs, clock: Clock) -> None:
    value = torch.tensor(2.0)
    syncs.install()
    clock.begin_update()
    value.item()
    clock.cancel_update()
    clock.push("input_wait")
    value.item()
    clock.pop()
    value.item()
    syncs.remove()
    assert Counter(point.where for point in syncs.facts(1)) == Counter(optimizer=1, loader=1, user=1)


def test_a_whole_step_is_told_apart(syncs: Syncs) -> None:
    """Adam on the CPU reads its step counters, an epoch its seed, the program its loss."""
    model = torch.nn.Linear(2, 1)
    adam = torch.optim.Adam(model.parameters(), lr=0.1, foreach=False)
    watch = Watch(Run({}, {}), clock := Clock(lambda step: None))
    watch.install()
    inner = Syncs(clock, watch._scope)
    inner.install()
    total = 0.0
    for batch in DataLoader(torch.ones(8, 2).unbind(), batch_size=2):  # type: ignore[arg-type]  # a tuple will do
        loss = model(batch).mean()
        loss.backward()
        adam.step()
        total += loss.item()
    inner.remove()
    watch.remove()
    found = {(point.kind, point.where): point.count_per_step for point in inner.facts(steps=4)}
    assert found == {("item", "user"): 1.0, ("item", "optimizer"): 2.0, ("item", "loader"): 0.25}


def test_a_copy_to_the_host_counts_only_from_a_device(syncs: Syncs) -> None:
    syncs.install()
    torch.ones(2).to("cpu").to(torch.device("cpu")).to(torch.ones(1))
    syncs.remove()
    assert syncs.facts(1) == ()


def test_other_threads_are_not_counted(syncs: Syncs) -> None:
    value = torch.tensor(1.0)
    syncs.install()
    thread = threading.Thread(target=value.item)
    thread.start()
    thread.join()
    threading.Thread(target=value.item).start()
    syncs.remove()
    assert syncs.facts(1) == ()


def test_removing_puts_back_every_method(syncs: Syncs) -> None:
    before = [vars(owner).get(name) for owner, name in PLACES]
    syncs.install()
    during = [vars(owner).get(name) for owner, name in PLACES]
    syncs.remove()
    assert all(now is not then for now, then in zip(during, before, strict=True))
    assert [vars(owner).get(name) for owner, name in PLACES] == before
    assert "item" not in vars(torch.Tensor)


def test_counting_begins_anew(syncs: Syncs) -> None:
    for _ in range(2):
        syncs.install()
        torch.tensor(1).item()
        syncs.remove()
    assert kinds(syncs) == Counter(item=1)


def test_errors_of_a_call_stay_what_they_are(syncs: Syncs) -> None:
    syncs.install()
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(2).item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.ones(2))
    syncs.remove()
    assert kinds(syncs) == Counter(item=1, bool=1)


class Tagged(torch.Tensor):
    """A subclass of the program's, which torch asks about every call."""


def test_subclasses_and_compiled_code_work_as_ever(syncs: Syncs) -> None:
    compiled = torch.compile(lambda x: x * 2 if x.sum() > 0 else x, backend="eager")
    syncs.install()
    tagged = torch.ones(2).as_subclass(Tagged)
    text, doubled = f"{tagged.sum()}", compiled(torch.ones(2))
    syncs.remove()
    assert text.startswith("2") or "2." in text
    assert doubled.tolist() == [2.0, 2.0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_device_only_its_tensors_count_and_their_waits_are_timed(syncs: Syncs) -> None:
    far, near = torch.ones(2048, 2048, device="cuda"), torch.tensor(1.0)
    syncs.install()
    (far @ far).sum().item()
    near.item()
    far.to("cpu"), far.to("cpu", non_blocking=True), near.to("cuda")
    torch.cuda.synchronize()
    torch.cuda.Event().synchronize()
    syncs.remove()
    assert kinds(syncs) == Counter(item=1, to=1, synchronize=2)
    assert all(point.blocked_ms is not None and point.blocked_ms > 0 for point in syncs.facts(1))
