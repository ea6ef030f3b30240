import time
from typing import Any

import pytest
from builders import a_loader, a_profile
from torch.utils.data import DataLoader, Dataset

from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.knobs.in_order import InOrder


class SlowFirst(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(0.4 if index == 0 else 0.0)
        return index


@pytest.mark.parametrize(("value", "waits"), [("on", True), ("off", False)])
def test_a_slow_batch_holds_up_the_others_or_does_not(value: str, waits: bool) -> None:
    arguments: dict[str, Any] = {"dataset": SlowFirst(), "num_workers": 2}
    InOrder().loader(arguments, value)
    items = [int(batch) for batch in DataLoader(**arguments)]
    assert sorted(items) == [0, 1, 2, 3]
    assert (items[0] == 0) is waits


def test_without_workers_nothing_is_done() -> None:
    arguments: dict[str, Any] = {"dataset": SlowFirst()}
    InOrder().loader(arguments, "off")
    assert set(arguments) == {"dataset"}


def test_it_changes_what_is_learnt_so_it_is_tried_only_by_name() -> None:
    assert InOrder.named_only
    assert InOrder.semantics is Semantics.TRAINING


def test_order_is_the_present_setting() -> None:
    assert InOrder().choices(a_profile(loader=a_loader(num_workers=2))) == ["on", "off"]


def test_without_a_loader_there_is_no_order() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        InOrder().check("off", a_profile())


def test_what_the_user_writes() -> None:
    assert InOrder().change("off") == Change("DataLoader(..., in_order=False)")
