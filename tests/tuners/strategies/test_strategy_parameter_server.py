import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_loader, a_profile, a_root, an_optimizer
from ranks import Told, run_ranks
from sharded_training import (
    STEPS,
    a_model,
    a_workload,
    assert_alike,
    clipped_and_accumulated,
    sgd,
    whole_losses,
)
from torch import nn
from torch.utils.data import TensorDataset

from advisor.profiles.facts.profile import EmbeddingFacts, Profile, RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.place import HERE
from advisor.tuners.strategies.parameter_server import ParameterServer
from advisor.workloads.workload import Workload

pytestmark = pytest.mark.slow

STRATEGY = "parameter_server"
PARAMETERS = sum(parameter.numel() for parameter in a_model().parameters())
DIE_AT = 20  # steps


def alone(folder: Path, workload: Callable[[], Workload] = a_workload, steps: int = STEPS) -> Told:
    """What one process learns."""
    return run_ranks("single", workload, folder / "single", workers=1, steps=steps)[0]


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return alone(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("servers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_workers_that_wait_for_each_other_learn_what_one_process_does(
    servers: int, tmp_path: Path, single: Told
) -> None:
    assert sum(single.losses[-4:]) < 0.7 * sum(single.losses[:4])
    told = run_ranks(STRATEGY, a_workload, tmp_path, steps=STEPS, servers=servers)
    assert_alike(told, single)
    assert told[0].report["staleness_largest"] == 0


@pytest.mark.long
def test_small_messages_change_nothing(tmp_path: Path, single: Told) -> None:
    config = {"message_bytes": 64, "servers": 2}
    told = run_ranks(STRATEGY, a_workload, tmp_path, steps=STEPS, servers=2, config=config)
    assert_alike(told, single)
    messages = len(list(a_model().parameters()))
    assert told[0].report["bytes_per_step"] > 1024 * messages


def test_servers_clip_the_mean_of_all_gradients(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, clipped_and_accumulated, tmp_path, steps=STEPS, servers=2)
    assert_alike(told, alone(tmp_path, clipped_and_accumulated))


def two_groups(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    first, *others = list(parameters)
    groups: list[dict[str, Any]] = [{"params": [first], "lr": 0.05, "weight_decay": 0.0}, {"params": others}]
    return torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)


def in_groups() -> Workload:
    return a_workload(
        optimizer=two_groups,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.8),
    )


def test_groups_and_schedules_act_on_the_servers(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, in_groups, tmp_path, steps=20, servers=2)
    assert_alike(told, alone(tmp_path, in_groups, 20))


def partly_used() -> Workload:
    """Parameters that are frozen, and others that never get a gradient."""

    def model() -> nn.Module:
        made = nn.ModuleDict({"used": a_model(), "unused": nn.Linear(3, 3)})
        made["used"][0].requires_grad_(False)  # type: ignore[index]
        return made

    return a_workload(
        model=model, step=lambda model, batch: nn.functional.mse_loss(model["used"](batch[0]), batch[1])
    )


def test_what_gets_no_gradient_stays_as_it_is(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, partly_used, tmp_path, steps=10, servers=2)
    assert_alike(told, alone(tmp_path, partly_used, 10))


def test_bytes_are_measured_as_they_were_predicted(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, a_workload, tmp_path, steps=5, servers=2)
    for report in (each.report for each in told):
        assert report["bytes_per_step"] == pytest.approx(4 * PARAMETERS + 4 * 1024, abs=16 * 10)
        assert report["bytes_per_step_measured"] == report["bytes_per_step"]
        assert report["bytes_received_per_step_measured"] == report["bytes_received_per_step"]
        assert 0.0 < report["server_busy_share"] < 1.0
        assert [server["updates"] for server in report["servers"]] == [5, 5]


CLASSES = torch.arange(256) % 4
POINTS = torch.stack([CLASSES % 2, CLASSES // 2, CLASSES * 0], 1) * 2.0 - 1.0
NOISY = POINTS + torch.linspace(-9, 9, 256 * 3).sin().reshape(256, 3) * 0.4


def classifying(**changes: Any) -> Workload:
    """Four noisy classes, of which a linear model cannot tell two from the others."""
    facts: dict[str, Any] = {
        "model": lambda: nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4)),
        "dataset": lambda: TensorDataset(NOISY, CLASSES),
        "loss": nn.functional.cross_entropy,
        "optimizer": sgd,
        "batch_size": 32,
    }
    return a_workload(**{**facts, **changes})


def slow_second(inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if HERE.place.rank == 1:
        time.sleep(0.05)
    return nn.functional.cross_entropy(inputs, target)


def classifying_unevenly() -> Workload:
    return classifying(loss=slow_second)


@pytest.mark.long
def test_without_waiting_gradients_are_stale_and_it_converges(tmp_path: Path) -> None:
    config = {"staleness": "unbounded"}
    told = run_ranks(STRATEGY, classifying_unevenly, tmp_path, steps=100, servers=1, config=config)
    slow = told[1]
    assert slow.report["staleness_largest"] > 1
    assert slow.report["updates_missed_largest"] > 1
    assert slow.report["servers"][0]["updates"] == 200
    assert slow.losses[0] > 1.0
    assert max(slow.losses[-8:]) < 0.2


@pytest.mark.parametrize("staleness", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_bound_is_kept_beside_a_slow_worker(staleness: int, tmp_path: Path) -> None:
    config = {"staleness": str(staleness)}
    told = run_ranks(STRATEGY, classifying_unevenly, tmp_path, steps=40, servers=2, config=config)
    seen = told[1].report
    assert 0 < seen["staleness_largest"] <= staleness
    assert sum(server["dropped"] for server in seen["servers"]) == 0
    assert sum(told[1].losses[-4:]) < 0.5 * sum(told[1].losses[:4])


def slow_to_learn() -> Workload:
    return a_workload(loss=slow_square)


def slow_square(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if HERE.place.rank == 1:
        time.sleep(0.01)
    return nn.functional.mse_loss(output, target)


@pytest.mark.long
def test_a_slow_worker_is_waited_for(tmp_path: Path, single: Told) -> None:
    told = run_ranks(STRATEGY, slow_to_learn, tmp_path, steps=STEPS, servers=2)
    assert_alike(told, single)


calls = count(1)


def fatal_square(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Kills the last server at one step of the first worker."""
    if HERE.place.rank == 0 and next(calls) == DIE_AT:
        last = HERE.place.processes - 1
        os.kill(int(_pid_file(last).read_text()), signal.SIGKILL)
    return nn.functional.mse_loss(output, target)


def _pid_file(rank: int) -> Path:
    return Path(HERE.place.rendezvous).parent / f"pid-{rank}"


def fatal(optimizer: Any) -> Workload:
    if HERE.place.serves:
        _pid_file(HERE.place.rank).write_text(str(os.getpid()))
    loss = fatal_square if HERE.place.servers else nn.functional.mse_loss
    return a_workload(optimizer=optimizer, loss=loss)


def plain_sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05)


def fatal_without_state() -> Workload:
    return fatal(plain_sgd)


def fatal_with_momentum() -> Workload:
    from advisor.tuners.mechanisms.parameter_server import key_value_server

    key_value_server.KEEP_EVERY = 5
    key_value_server.KEEP_SHARE = 1.0
    return fatal(sgd)


def test_a_lost_server_of_two_costs_nothing_where_the_optimizer_has_no_state(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, fatal_without_state, tmp_path, steps=STEPS, servers=2)
    assert_alike(told, alone(tmp_path, fatal_without_state))
    for report in (each.report for each in told):
        assert list(report["servers_lost"]) == ["1"]
        assert [server["server"] for server in report["servers"]] == [0]
        (restored,) = report["restored"]
        assert restored["server"] == 1 and restored["keys"] > 0
        assert restored["version"] in (DIE_AT - 1, DIE_AT)
        assert (restored["updates_lost"], restored["state_updates_lost"]) == (0, None)


def test_the_state_of_a_lost_servers_optimizer_comes_from_its_checkpoint(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, fatal_with_momentum, tmp_path, steps=STEPS, servers=2)
    (restored,) = told[0].report["restored"]
    assert restored["updates_lost"] == 0
    assert 0 <= restored["state_updates_lost"] <= 5
    single = alone(tmp_path, fatal_with_momentum)
    assert whole_losses(told)[: DIE_AT - 1] == pytest.approx(single.losses[: DIE_AT - 1], rel=1e-4)
    assert whole_losses(told)[-1] == pytest.approx(single.losses[-1], rel=0.2)


def test_without_another_server_the_error_names_the_lost_one(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"parameter server 0 was lost \(.+\), and there is no other"):
        run_ranks(STRATEGY, fatal_without_state, tmp_path, steps=STEPS, servers=1)


def with_a_short_limit() -> Workload:
    HERE.place = replace(HERE.place, timeout_s=3.0)
    if HERE.place.serves:
        _pid_file(HERE.place.rank).write_text(str(os.getpid()))
    loss = stopping_square if HERE.place.servers else nn.functional.mse_loss
    return a_workload(optimizer=plain_sgd, loss=loss)


def stopping_square(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if HERE.place.rank == 0 and next(calls) == DIE_AT:
        os.kill(int(_pid_file(HERE.place.processes - 1).read_text()), signal.SIGSTOP)
    return nn.functional.mse_loss(output, target)


def test_a_server_that_hangs_is_lost_after_a_third_of_the_limit(tmp_path: Path) -> None:
    told = run_ranks(STRATEGY, with_a_short_limit, tmp_path, steps=STEPS, servers=2)
    assert_alike(told, alone(tmp_path, with_a_short_limit))
    assert all("no answer to 10 pings in 1 s" in each.report["servers_lost"]["1"] for each in told)


def test_only_waiting_for_all_workers_keeps_what_is_learnt() -> None:
    assert ParameterServer().meaning({}) is Semantics.ROUNDING
    assert ParameterServer().meaning({"staleness": "0"}) is Semantics.ROUNDING
    assert ParameterServer().meaning({"staleness": "1"}) is Semantics.TRAINING
    assert ParameterServer().meaning({"staleness": "unbounded"}) is Semantics.TRAINING


def test_servers_come_beside_the_workers() -> None:
    assert ParameterServer().servers({}) == 1
    assert ParameterServer().servers({"servers": 2}) == 2


def test_before_training_there_is_nothing_to_report() -> None:
    assert ParameterServer().report() == {}


def test_what_the_user_writes_is_code() -> None:
    compile(ParameterServer().change().snippet, "snippet", "exec")


def test_an_ordinary_program_can_be_trained() -> None:
    ParameterServer().check(a_profile(roots=(a_root(),), loader=a_loader(), optimizers=(an_optimizer(),)), 2)


SPARSE = EmbeddingFacts("table", rows=10, columns=4, sparse=True)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(optimizers=(an_optimizer("LBFGS", closure=True),)), "LBFGS computes gradients several"),
        (a_profile(optimizers=(an_optimizer("SGD", sparse_gradients=True),)), "SGD gets sparse gradients"),
        (a_profile(roots=(a_root(embeddings=(SPARSE,)),)), "an embedding table has sparse gradients"),
        (a_profile(run=RunFacts(sum_reduced_loss=True)), "summed over the batch"),
        (a_profile(loader=a_loader(iterable=True)), "iterable"),
        (a_profile(target_kind="script"), "script"),
    ],
)
def test_where_it_cannot_train_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        ParameterServer().check(profile, 2)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: nn.Embedding(4, 2, sparse=True), "sparse gradients"),
        (lambda: nn.LazyLinear(2), "without a shape"),
        (lambda: nn.Linear(2, 2).requires_grad_(False), "no parameter"),
    ],
)
def test_models_that_servers_cannot_hold_are_refused(model: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        ParameterServer().wrap(model())
