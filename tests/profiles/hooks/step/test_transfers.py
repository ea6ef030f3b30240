"""Copies to an accelerator become events; the meta device stands for one."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.transfers import Transfers


class Moves:
    """A subscriber that copies a tensor itself and notes where to."""

    layer = 0

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[int, ...], str]] = []

    def prepare(self, config: Any, present: Any) -> None:
        """Nothing depends on other settings."""

    def transfer(self, tensor: torch.Tensor, device: torch.device, value: Any) -> torch.Tensor:
        self.seen.append((tuple(tensor.shape), str(device)))
        return tensor.to(device)


class Watched:
    def __init__(self) -> None:
        self.moves = Moves()
        self.run = Run({"moves": self.moves}, {"moves": "off"})
        self.scope = Scope()
        self.scope.enter()
        self.transfers = Transfers(self.run, self.scope, hosts=frozenset({"cpu"}))

    def switch(self, value: str) -> None:
        self.run.configure({"moves": value})
        self.transfers.follow()


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    watched.switch("on")
    watched.transfers.install()
    yield watched
    watched.transfers.remove()
    assert "to" not in vars(torch.Tensor)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("meta",), {}),
        ((torch.device("meta"),), {}),
        (("meta", torch.float64), {}),
        ((torch.ones(1, device="meta"),), {}),
        ((), {"device": "meta", "non_blocking": True}),
        ((), {"tensor": torch.ones(1, device="meta")}),
        (("meta",), {"copy": True}),
    ],
)
def test_each_way_to_write_a_copy_is_one_event(
    watched: Watched, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    expected = torch.ones(3, 2).to("cpu", torch.float64 if torch.float64 in args else torch.float32)
    moved = torch.ones(3, 2).to(*args, **kwargs)
    assert watched.moves.seen == [((3, 2), "meta")]
    assert (moved.device.type, moved.dtype, moved.shape) == ("meta", expected.dtype, expected.shape)


def test_what_stays_on_the_host_is_no_event(watched: Watched) -> None:
    row = torch.ones(2)
    assert row.to(torch.float64).dtype == torch.float64
    assert row.to("cpu") is row
    assert row.to(dtype=torch.int64).tolist() == [1, 1]
    assert row.to(torch.zeros(1, dtype=torch.float16)).dtype == torch.float16
    assert watched.moves.seen == []


def test_what_is_there_already_is_no_event(watched: Watched) -> None:
    torch.ones(2, device="meta").to("meta", torch.float64)
    assert watched.moves.seen == []


def test_a_model_is_no_batch(watched: Watched) -> None:
    model = nn.BatchNorm1d(3).to("meta")
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
    assert watched.moves.seen == []


def test_copies_of_other_threads_are_theirs(watched: Watched) -> None:
    thread = threading.Thread(target=lambda: torch.ones(2).to("meta"))
    thread.start()
    thread.join()
    assert watched.moves.seen == []


def test_a_wrong_device_is_answered_by_torch_itself(watched: Watched) -> None:
    with pytest.raises(RuntimeError, match="nonsense"):
        torch.ones(2).to("nonsense")
    assert watched.moves.seen == []


def test_nothing_is_replaced_while_nobody_subscribes(watched: Watched) -> None:
    assert "to" in vars(torch.Tensor) and "cuda" in vars(torch.Tensor)
    watched.switch("off")
    assert "to" not in vars(torch.Tensor) and "cuda" not in vars(torch.Tensor)
    watched.switch("on")
    torch.ones(2).to("meta")
    assert watched.moves.seen == [((2,), "meta")]


def test_a_switch_acts_at_once_where_the_methods_are_still_replaced(watched: Watched) -> None:
    watched.run.configure({})
    assert torch.ones(2).to("meta").device.type == "meta"
    assert watched.moves.seen == []


def test_removed_it_stays_away_whoever_subscribes(watched: Watched) -> None:
    watched.transfers.remove()
    watched.switch("off")
    watched.switch("on")
    assert "to" not in vars(torch.Tensor)


def test_a_refusal_leaves_the_copy_to_the_program(watched: Watched) -> None:
    def refuse(tensor: torch.Tensor, device: torch.device, value: Any) -> torch.Tensor:
        raise LookupError("not here")

    run = Run({"moves": watched.moves}, {"moves": "off"}, LookupError)
    watched.moves.transfer = refuse  # type: ignore[method-assign]
    run.configure({"moves": "on"})
    transfers = Transfers(run, watched.scope, hosts=frozenset({"cpu"}))
    watched.transfers.remove()
    transfers.install()
    try:
        assert torch.ones(2).to("meta").device.type == "meta"
    finally:
        transfers.remove()
    assert run.refused == {"moves": "not here"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_short_way_to_a_gpu_is_an_event_too(watched: Watched) -> None:
    moved = [torch.ones(2).cuda(), torch.ones(2).cuda(0), torch.ones(2).cuda(device="cuda:0")]
    assert [place for _, place in watched.moves.seen] == ["cuda:0"] * 3
    assert all(tensor.is_cuda for tensor in moved)
