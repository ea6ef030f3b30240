"""The state of a training: what its copy takes of memory, and where it cannot be kept."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from advisor.tuners.trial.numerics.kept_state import PIECE, KeptState
from advisor.tuners.trial.numerics.relearning import SPARE
from advisor.tuners.trial.pending_graph import is_pending


def highest_bytes(do: Callable[[], None]) -> int:
    """Most that was allocated on the host while something was done, beyond what there was before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        do()
    results: Any = found.profiler
    allocated = [each for each in results.kineto_results.events() if each.name() == "[memory]"]
    now = highest = 0
    for each in sorted(allocated, key=lambda each: each.start_ns()):
        now += each.nbytes()
        highest = max(highest, now)
    return highest


def trained(layer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    layer(torch.ones(2, 1000)).sum().backward()
    optimizer.step()


def test_keeping_a_state_takes_no_more_than_was_looked_for_also_of_one_large_tensor() -> None:
    layer = nn.Linear(1000, 1000)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    trained(layer, optimizer)
    state = KeptState()
    assert state.bytes >= 2 * 4 * 1000 * 1000 > 10 * PIECE
    assert state.bytes <= highest_bytes(state.copy) <= SPARE * state.bytes


def test_bringing_it_back_takes_next_to_nothing_as_often_as_it_is_done() -> None:
    layer = nn.Linear(1000, 1000)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    trained(layer, optimizer)
    state, weights = KeptState(), layer.weight.detach().clone()
    state.copy()
    for _ in range(3):
        trained(layer, optimizer)
        assert not torch.equal(layer.weight, weights)
        assert highest_bytes(state.restore) <= 8 * PIECE
        assert torch.equal(layer.weight, weights)
        assert layer.weight.grad is not None and bool((layer.weight.grad == 2.0).all())


def test_what_is_not_a_number_comes_back_too() -> None:
    layer = nn.Linear(3, 3)
    with torch.no_grad():
        layer.weight.fill_(float("nan"))
    state = KeptState([torch.tensor(1.0)])
    state.copy()
    with torch.no_grad():
        layer.weight.fill_(1.0)
    state.restore()
    assert bool(layer.weight.isnan().all())


def test_a_forward_before_its_backward_is_pending() -> None:
    layer = nn.Linear(4, 4)
    outputs = layer(torch.ones(2, 4)).relu()
    assert is_pending(outputs.grad_fn)
    outputs.sum().backward()
    assert not is_pending(outputs.grad_fn)


def test_what_was_made_of_a_graph_that_has_been_run_is_not_pending() -> None:
    scores = nn.Linear(4, 4)(torch.ones(2, 4)).relu()
    nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()
    largest, places = scores.max(1)
    assert largest.grad_fn is not None and len(places) == 2 and not is_pending(largest.grad_fn)
