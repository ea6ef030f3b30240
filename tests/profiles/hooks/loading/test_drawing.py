import time
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.hooks.loading.drawing import PHASE, Drawing
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock

DRAW_S = 0.01
LINE = Location("train.py", 3)


class SlowOrder:
    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(6):
            time.sleep(DRAW_S)
            yield [0, 1]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_sampler_takes_is_timed_with_and_without_workers(workers: int) -> None:
    scope = Scope()
    scope.enter()
    drawing = Drawing(Clock(lambda step: None), scope)
    assert drawing.facts() == {}
    drawing.install()
    data = TensorDataset(torch.zeros(4))
    batches = len(list(DataLoader(data, batch_sampler=SlowOrder(), num_workers=workers)))
    drawing.remove(batches, [HotSpot("input_wait", Location("other.py", 1), 0.9), HotSpot(PHASE, LINE, 1.0)])
    facts = drawing.facts()
    assert facts["draw_ms"] >= 1000 * DRAW_S
    assert facts["draw_line"] == LINE


def test_loaders_are_as_before_afterwards() -> None:
    kinds = (_BaseDataLoaderIter, _MultiProcessingDataLoaderIter)
    before = [vars(kind).get("_next_index") for kind in kinds]
    drawing = Drawing(Clock(lambda step: None), Scope())
    drawing.install()
    assert [vars(kind).get("_next_index") for kind in kinds] != before
    drawing.remove(1, [])
    assert [vars(kind).get("_next_index") for kind in kinds] == before
