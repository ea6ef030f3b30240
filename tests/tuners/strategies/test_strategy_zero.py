from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from builders import a_loader, a_profile, a_root, an_optimizer
from ranks import Told, run_ranks
from sharded_training import (
    BATCH,
    DATA,
    STEPS,
    a_model,
    a_workload,
    assert_alike,
    clipped_and_accumulated,
    first_of,
    with_momentum,
)
from torch import nn
from torch.utils.data import Subset

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.place import HERE
from advisor.tuners.strategies.zero import Zero
from advisor.tuners.trial.loop import train
from advisor.workloads.workload import Workload

PARAMETERS = sum(parameter.numel() for parameter in a_model().parameters())


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What one process learns in as many steps."""
    return run_ranks("single", a_workload, tmp_path_factory.mktemp("single"), workers=1, steps=STEPS)[0]


def test_every_rank_learns_what_one_process_does(tmp_path: Path, single: Told) -> None:
    assert sum(single.losses[-4:]) < 0.5 * sum(single.losses[:4])
    assert_alike(run_ranks("zero", a_workload, tmp_path, steps=STEPS), single)


def test_sent_in_one_message_they_learn_the_same(tmp_path: Path, single: Told) -> None:
    config = {"parameters_as_bucket_view": "on"}
    assert_alike(run_ranks("zero", a_workload, tmp_path, steps=STEPS, config=config), single)


@pytest.mark.long
def test_momentum_of_sgd_is_divided_too(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", with_momentum, tmp_path / "single", workers=1, steps=STEPS)
    told = run_ranks("zero", with_momentum, tmp_path, steps=STEPS)
    assert_alike(told, alone)
    assert sum(each.report["optimizer_state_bytes"] for each in told) == 4 * PARAMETERS


def test_accumulation_and_clipping_give_the_same(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", clipped_and_accumulated, tmp_path / "single", workers=1, steps=STEPS)
    assert_alike(run_ranks("zero", clipped_and_accumulated, tmp_path, steps=STEPS), alone)


def two_groups(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    first, *others = list(parameters)
    groups: list[dict[str, Any]] = [{"params": [first], "lr": 0.05, "weight_decay": 0.0}, {"params": others}]
    return torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)


def in_groups() -> Workload:
    return a_workload(
        optimizer=two_groups,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.8),
    )


def test_groups_and_schedules_keep_their_settings(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", in_groups, tmp_path / "single", workers=1, steps=20)
    assert_alike(run_ranks("zero", in_groups, tmp_path, steps=20), alone)


def test_the_state_of_the_optimizer_is_divided_and_the_model_is_not(tmp_path: Path) -> None:
    told = run_ranks("zero", a_workload, tmp_path, steps=2)
    counters = 4 * len(list(a_model().parameters()))  # AdamW counts the steps of each parameter
    held = [each.report["optimizer_state_bytes"] for each in told]
    assert sum(held) == 2 * 4 * PARAMETERS + counters
    assert max(held) < 0.6 * sum(held)
    for each in told:
        assert each.report["parameter_bytes"] == 4 * PARAMETERS
        assert each.report["bytes_per_step"] == 4 * PARAMETERS + 2 * PARAMETERS  # all-reduce and broadcasts


class Halving(torch.optim.SGD):
    """Keeps a setting that is no argument of a group."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 0.1, every: int = 10) -> None:
        super().__init__(params, lr=lr)
        self.every = every


@pytest.fixture
def first_of_two() -> Iterator[None]:
    with first_of(2):
        yield


@pytest.mark.usefixtures("first_of_two")
def test_an_optimizer_that_keeps_settings_elsewhere_is_refused() -> None:
    workload = a_workload(optimizer=lambda parameters: Halving(parameters, every=5))
    with pytest.raises(Refused, match="cannot be built again from its settings: every would be 10, not 5"):
        train(workload, "cpu", 1, Zero())


class Scaled(torch.optim.SGD):
    """Loses a setting that it needs."""

    def __init__(self, params: Iterable[nn.Parameter], scale: float) -> None:
        super().__init__(params, lr=0.1 * scale)


@pytest.mark.usefixtures("first_of_two")
def test_an_optimizer_that_needs_a_lost_setting_is_refused() -> None:
    workload = a_workload(optimizer=lambda parameters: Scaled(parameters, 2.0))
    with pytest.raises(Refused, match="Scaled cannot be built again from its settings"):
        train(workload, "cpu", 1, Zero())


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(inputs)
        return output

    forward = predict


@pytest.mark.usefixtures("first_of_two")
def test_a_step_that_calls_a_method_of_the_model_is_refused() -> None:
    def step(model: Any, batch: list[torch.Tensor]) -> torch.Tensor:
        return nn.functional.mse_loss(model.predict(batch[0]), batch[1])

    with pytest.raises(Refused, match=r"the step uses model\.predict"):
        train(a_workload(model=Named, step=step), "cpu", 2, Zero())


@pytest.mark.usefixtures("first_of_two")
def test_over_gloo_updates_may_not_overlap_with_backward() -> None:
    HERE.config = {"overlap_with_ddp": "on"}
    with pytest.raises(Refused, match="gloo may hang"):
        train(a_workload(), "cpu", 1, Zero())


@pytest.mark.usefixtures("first_of_two")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clip_norm": 1.0}, "cannot be clipped"),
        ({"scheduler": lambda each: torch.optim.lr_scheduler.StepLR(each, 1)}, "a scheduler has no effect"),
        ({"optimizer": two_groups}, "in one group only"),
        ({"optimizer": torch.optim.RAdam}, "no functional form of RAdam"),
        ({"optimizer": lambda each: torch.optim.Adam(each, capturable=True)}, "has no capturable=True"),
    ],
)
def test_what_updates_within_backward_would_ignore_is_refused(
    changes: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "get_backend", lambda group=None: "nccl")
    HERE.config = {"overlap_with_ddp": "on"}
    with pytest.raises(Refused, match=reason):
        train(a_workload(**changes), "cpu", 1, Zero())


def as_over_nccl() -> Workload:
    """Gloo under another name: with one bucket nothing can overtake another."""
    patched: Any = dist
    patched.get_backend = lambda group=None: "nccl"
    return a_workload()


def from_the_third() -> Workload:
    later = Subset(DATA, [(2 * BATCH + index) % len(DATA) for index in range(len(DATA))])
    return a_workload(dataset=lambda: later)


def test_updates_within_backward_begin_with_the_third_step(tmp_path: Path) -> None:
    told = run_ranks("zero", as_over_nccl, tmp_path, steps=22, config={"overlap_with_ddp": "on"})
    (later,) = run_ranks("single", from_the_third, tmp_path / "single", workers=1, steps=20)
    assert_alike([Told(each.rank, each.losses[2:], each.parameters) for each in told], later)


def test_models_that_have_no_flat_buffer_are_refused() -> None:
    with pytest.raises(Refused, match="one type, not of bfloat16, float32"):
        Zero().wrap(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.bfloat16)))
    with pytest.raises(Refused, match="no parameter"):
        Zero().wrap(nn.Linear(2, 2).requires_grad_(False))


def test_torchscript_would_leave_gradients_unaveraged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "config", {"execution": "jit_trace"})
    with pytest.raises(Refused, match="TorchScript"):
        Zero().wrap(nn.Linear(2, 2))


def test_only_updates_within_backward_change_what_is_learnt() -> None:
    assert Zero().meaning({"overlap_with_ddp": "on"}) is Semantics.TRAINING
    assert Zero().meaning({"parameters_as_bucket_view": "on"}) is Semantics.ROUNDING


def test_before_training_there_is_nothing_to_report() -> None:
    assert Zero().report() == {}


def test_an_ordinary_program_can_be_trained() -> None:
    Zero().check(a_profile(optimizers=(an_optimizer(without_gradient_bytes=0),), roots=(a_root(),)), 2)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(optimizers=(an_optimizer(without_gradient_bytes=8),)), "get no gradient"),
        (a_profile(optimizers=(an_optimizer(sparse_gradients=True),)), "sparse gradients"),
        (a_profile(roots=(a_root(dtypes=("bfloat16", "float32")),)), "bfloat16, float32"),
        (a_profile(roots=(a_root(parallel="DataParallel"),)), "DataParallel itself"),
        (a_profile(run=RunFacts(sum_reduced_loss=True)), "summed over the batch"),
        (a_profile(loader=a_loader(iterable=True)), "iterable"),
        (a_profile(target_kind="script"), "script"),
    ],
)
def test_where_it_cannot_train_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Zero().check(profile, 2)


def test_what_the_user_writes_is_code() -> None:
    compile(Zero().change().snippet, "snippet", "exec")
