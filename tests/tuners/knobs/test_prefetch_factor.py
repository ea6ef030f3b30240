from typing import Any

import pytest
import torch
from builders import a_loader, a_profile
from torch.utils.data import DataLoader, TensorDataset

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.prefetch_factor import PrefetchFactor


def test_a_real_loader_with_workers_keeps_as_many_batches_ready() -> None:
    arguments: dict[str, Any] = {"dataset": TensorDataset(torch.zeros(4, 1)), "num_workers": 1}
    PrefetchFactor().loader(arguments, 8)
    assert DataLoader(**arguments).prefetch_factor == 8


def test_without_workers_nothing_is_done() -> None:
    arguments: dict[str, Any] = {"dataset": TensorDataset(torch.zeros(4, 1)), "num_workers": 0}
    PrefetchFactor().loader(arguments, 8)
    assert DataLoader(**arguments).prefetch_factor is None


def test_torchs_default_is_the_present_setting_where_none_is_given() -> None:
    assert PrefetchFactor().choices(a_profile(loader=a_loader(prefetch_factor=None))) == [2, 4, 8]


def test_the_programs_own_setting_comes_first() -> None:
    assert PrefetchFactor().choices(a_profile(loader=a_loader(prefetch_factor=4))) == [4, 2, 8]


def test_without_a_loader_there_is_no_queue() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        PrefetchFactor().choices(a_profile())
