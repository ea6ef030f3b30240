"""Workers pass tensors by name where the program keeps those of its batches."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch.multiprocessing
from builders import a_loader, a_profile, a_rich_profile
from growing_profiles import a_growing_profile, read

from advisor.profiles.facts.growing import GrowingVariable
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.knobs.sharing_strategy import HAS_WORKERS, NOTHING_KEPT, SharingStrategy
from advisor.tuners.space.space import build_space

LABELS = GrowingVariable("labels", 1.0, holds="batch")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = torch.multiprocessing.get_sharing_strategy()
    yield
    torch.multiprocessing.set_sharing_strategy(before)


def keeping(num_workers: int = 0) -> Profile:
    rich = a_rich_profile(loader=a_loader(num_workers=num_workers, item_ms=2.0, cpu_share=0.1))
    profile = a_growing_profile(
        read("open_files", lambda _: 12, limit=1024), variables=[LABELS], loader=rich.loader, run=rich.run
    )
    return profile


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_growing_profile(loader=a_loader()), NOTHING_KEPT),
        (a_growing_profile(variables=[GrowingVariable("log", 1.0)], loader=a_loader()), NOTHING_KEPT),
        (keeping(num_workers=2), HAS_WORKERS),
        (a_profile(), "the program uses no DataLoader"),
    ],
    ids=["nothing grows", "numbers are kept", "workers already", "no loader"],
)
def test_it_is_refused_where_nothing_would_come_of_it(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        SharingStrategy().choices(profile)


def test_it_comes_and_goes_with_workers() -> None:
    space = build_space(KNOBS, keeping(), named={"num_workers": [1, 2]})
    assert space.choices["sharing_strategy"] == ["file_descriptor", "file_system"]
    assert space.complete({"num_workers": 2})["sharing_strategy"] == "file_system"
    alone = space.complete({"sharing_strategy": "file_system"})
    assert alone == space.complete({}) == space.present
    assert space.without(space.complete({"num_workers": 2}), "num_workers") == space.present
    assert space.check(space.complete({"num_workers": 2})) is None


def test_a_program_that_keeps_nothing_gets_workers_alone() -> None:
    profile = a_growing_profile(loader=a_loader(item_ms=2.0, cpu_share=0.1), run=a_rich_profile().run)
    space = build_space(KNOBS, profile, named={"num_workers": [2]})
    assert "sharing_strategy" not in space.complete({"num_workers": 2})


def test_only_a_loader_with_workers_sets_it() -> None:
    knob, arguments = SharingStrategy(), dict[str, Any](num_workers=0)
    knob.loader(arguments, "file_system")
    assert torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
    knob.loader({"num_workers": 2}, "file_system")
    assert torch.multiprocessing.get_sharing_strategy() == "file_system"
