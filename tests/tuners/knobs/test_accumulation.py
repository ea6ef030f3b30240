from dataclasses import replace
from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_loader, a_rich_profile, a_root, a_run
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.knobs.accumulation import PROPOSAL, Accumulation
from advisor.tuners.mechanisms.micro_batches import Splitting

BATCH = [torch.arange(12.0).reshape(6, 2), torch.arange(6)]


@pytest.fixture(autouse=True)
def splitting(monkeypatch: pytest.MonkeyPatch) -> Splitting:
    made = Splitting()
    monkeypatch.setattr("advisor.tuners.knobs.accumulation.SPLITTING", made)
    return made


def a_run_with(parts: int) -> Run:
    run = a_run(accumulation=Accumulation())
    run.process()
    run.configure({"accumulation": parts})
    return run


def an_optimizer_of_torch() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)


def test_a_live_switch_splits_batches_and_comes_back(splitting: Splitting) -> None:
    run = a_run_with(3)
    assert [len(part[0]) for part, _ in splitting.split(BATCH)] == [2, 2, 2]
    with run.step(an_optimizer_of_torch()):
        assert (run.applied, run.refused) == ({"accumulation"}, {})
    run.configure({})
    assert len(splitting.split(BATCH)) == 1


def test_a_loop_that_is_not_ours_is_told_what_to_write() -> None:
    run = a_run_with(2)
    run.step(an_optimizer_of_torch())
    assert run.refused == {"accumulation": PROPOSAL}


def test_a_batch_that_cannot_be_split_is_refused_and_left_whole(splitting: Splitting) -> None:
    run = a_run_with(2)
    assert splitting.split({"names": ["a", "b"], "rows": BATCH[0]}) == [
        ({"names": ["a", "b"], "rows": BATCH[0]}, 1.0)
    ]
    run.step(an_optimizer_of_torch())
    assert "more than tensors" in run.refused["accumulation"]
    assert splitting.parts == 1


@pytest.mark.parametrize(("size", "parts"), [(32, [1, 2, 4, 8]), (12, [1, 2, 3, 4, 6]), (7, [1, 7])])
def test_equal_parts_are_tried(size: int, parts: list[int]) -> None:
    assert Accumulation().choices(a_rich_profile(loader=a_loader(batch_size=size))) == parts


def with_run(**facts: Any) -> Profile:
    profile = a_rich_profile()
    assert profile.run is not None
    return replace(profile, run=replace(profile.run, **facts))


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_rich_profile(target_kind="script"), r"\(loss / k\).backward\(\)"),
        (a_rich_profile(roots=(a_root(has_batch_norm=True),)), "normalises each micro-batch by itself"),
        (with_run(sum_reduced_loss=True), "summed over the batch"),
        (with_run(sum_reduced_loss=None), "not known whether the loss is a mean"),
        (a_rich_profile(run=None), "not known whether the loss is a mean"),
        (a_rich_profile(loader=a_loader(batch_size=13)), "a batch of 13 has no equal parts"),
        (a_rich_profile(loader=None), "size of a batch is not known"),
        (a_gpu_profile(roots=(a_root(parallel="DistributedDataParallel"),)), "no_sync"),
    ],
)
def test_where_it_would_train_differently_it_is_not_proposed(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Accumulation().choices(profile)


def test_batch_norm_is_tried_when_named() -> None:
    Accumulation().check(4, a_rich_profile(roots=(a_root(has_batch_norm=True),)))
    with pytest.raises(Refused, match="32 cannot be split into 5"):
        Accumulation().check(5, a_rich_profile())
    with pytest.raises(Refused, match="in a script"):
        Accumulation().check(4, a_rich_profile(target_kind="script", run=RunFacts()))


def test_parts_that_are_normalised_by_themselves_are_another_training() -> None:
    knob = Accumulation()
    knob.check(4, a_rich_profile(roots=(a_root(has_batch_norm=True),)))
    assert knob.meaning({"accumulation": 4}) is Semantics.TRAINING
    knob.check(4, a_rich_profile())  # the next program
    assert knob.meaning({"accumulation": 4}) is Semantics.ROUNDING


def test_what_the_user_writes_divides_the_loss() -> None:
    assert "/ 4).backward()" in Accumulation().change(4).snippet
