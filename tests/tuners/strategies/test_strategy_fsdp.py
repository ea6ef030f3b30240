from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from builders import a_gpu_profile, a_loader, a_profile, a_root, an_optimizer
from ranks import Told, run_ranks
from sharded_training import (
    STEPS,
    Block,
    a_model,
    a_workload,
    assert_alike,
    clipped_and_accumulated,
    first_of,
    whole_losses,
    with_momentum,
)
from torch import nn

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.sharding import clip_shards
from advisor.tuners.place import HERE
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategies.fsdp import Fsdp
from advisor.tuners.trial.loop import train
from advisor.workloads.workload import Workload

pytestmark = pytest.mark.slow

PARAMETERS = sum(parameter.numel() for parameter in a_model().parameters())
AROUND = PARAMETERS - 2 * sum(parameter.numel() for parameter in Block().parameters())


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What one process learns in as many steps."""
    return run_ranks("single", a_workload, tmp_path_factory.mktemp("single"), workers=1, steps=STEPS)[0]


@pytest.mark.parametrize(
    ("wrap", "reshard"),
    [
        ("blocks", "on"),
        pytest.param("whole", "off", marks=pytest.mark.long),
        pytest.param("whole", "on", marks=pytest.mark.long),
        pytest.param("blocks", "off", marks=pytest.mark.long),
    ],
)
def test_every_rank_learns_what_one_process_does(
    wrap: str, reshard: str, tmp_path: Path, single: Told
) -> None:
    config = {"fsdp_wrap": wrap, "reshard_after_forward": reshard}
    assert_alike(run_ranks("fsdp", a_workload, tmp_path, steps=STEPS, config=config), single)


@pytest.mark.long
def test_sgd_with_momentum_learns_the_same(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", with_momentum, tmp_path / "single", workers=1, steps=STEPS)
    assert_alike(run_ranks("fsdp", with_momentum, tmp_path, steps=STEPS), alone)


def clipped_by_shards() -> Workload:
    """As with offloaded gradients, but where they are."""

    def clip(model: nn.Module, limit: float) -> None:
        clip_shards(model.parameters(), limit, "cpu", HERE.among_workers)

    STRATEGIES["fsdp"].clip = clip  # type: ignore[method-assign]
    return clipped_and_accumulated()


@pytest.mark.parametrize(
    "workload", [clipped_and_accumulated, pytest.param(clipped_by_shards, marks=pytest.mark.long)]
)
def test_accumulation_and_clipping_give_the_same(workload: Callable[[], Workload], tmp_path: Path) -> None:
    (alone,) = run_ranks("single", clipped_and_accumulated, tmp_path / "single", workers=1, steps=STEPS)
    assert_alike(run_ranks("fsdp", workload, tmp_path, steps=STEPS, config={"fsdp_wrap": "blocks"}), alone)


def test_in_bf16_it_learns_nearly_the_same(tmp_path: Path, single: Told) -> None:
    told = run_ranks("fsdp", a_workload, tmp_path, steps=STEPS, config={"fsdp_precision": "bf16"})
    assert whole_losses(told) == pytest.approx(single.losses, rel=0.1)
    assert whole_losses(told) != pytest.approx(single.losses, rel=1e-4)


def test_each_rank_holds_its_part_of_parameters_and_state(tmp_path: Path) -> None:
    told = run_ranks("fsdp", a_workload, tmp_path, steps=2)
    held = [each.report["parameter_bytes"] for each in told]
    assert sum(held) == 4 * PARAMETERS
    assert max(held) < 0.6 * sum(held)
    counters = 4 * len(list(a_model().parameters()))
    assert [each.report["optimizer_state_bytes"] for each in told] == [2 * each + counters for each in held]


@pytest.fixture
def first_of_two() -> Iterator[None]:
    with first_of(2):
        yield


@pytest.mark.usefixtures("first_of_two")
@pytest.mark.parametrize(
    ("config", "units", "sent"),
    [
        # half of the parameters for each gathering, and all gradients: gloo reduces without scattering
        ({}, 1, 2 * 2 * PARAMETERS + 4 * PARAMETERS),
        ({"reshard_after_forward": "off"}, 1, 2 * PARAMETERS + 4 * PARAMETERS),
        ({"fsdp_wrap": "blocks"}, 3, 2 * 2 * PARAMETERS - 2 * AROUND + 4 * PARAMETERS),
        ({"fsdp_precision": "bf16"}, 1, 2 * PARAMETERS + 4 * PARAMETERS),
    ],
)
def test_sent_bytes_are_those_of_gathering_and_reducing(
    config: dict[str, int | str], units: int, sent: int
) -> None:
    HERE.config = config
    strategy = Fsdp()
    train(a_workload(), "cpu", 1, strategy)
    assert (strategy.report()["units"], strategy.report()["bytes_per_step"]) == (units, sent)


@pytest.mark.usefixtures("first_of_two")
def test_every_micro_batch_travels() -> None:
    strategy = Fsdp()
    train(clipped_and_accumulated(), "cpu", 4, strategy)
    assert strategy.report()["bytes_per_step"] == 2 * (2 * 2 * PARAMETERS + 4 * PARAMETERS)


@pytest.mark.usefixtures("first_of_two")
def test_a_step_that_computes_with_parameters_itself_is_refused() -> None:
    def step(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        penalty = sum(parameter.pow(2).sum() for parameter in model.parameters())
        return nn.functional.mse_loss(model(batch[0]), batch[1]) + 0.01 * penalty

    with pytest.raises(Refused, match="the step computes with parameters outside"):
        train(a_workload(step=step), "cpu", 1, Fsdp())


class Tied(nn.Module):
    """Two blocks that share a parameter."""

    def __init__(self) -> None:
        super().__init__()
        first, second = Block(), Block()
        second.wide.weight = first.wide.weight
        self.blocks = nn.ModuleList([first, second])


class Strided(nn.Module):
    """As a convolution in channels_last."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4, 3, 3).contiguous(memory_format=torch.channels_last))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.0))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Linear(4, 4), "no two blocks"),
        (Tied(), "share parameters"),
        (nn.Sequential(nn.Sequential(Block(), Block()), Scaled()), "scalar"),
        (nn.ModuleList([Block(), Block()]), "container without a forward"),
        (nn.Sequential(Block(), Block(), nn.Linear(4, 4, dtype=torch.float64)), "float32, float64"),
        (nn.Sequential(Block(), Block(), Strided()), "contig"),
    ],
)
def test_models_that_cannot_be_sharded_in_blocks_are_refused(
    model: nn.Module, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HERE, "config", {"fsdp_wrap": "blocks"})
    with pytest.raises(Refused, match=reason):
        Fsdp().wrap(model)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("amp", "fp16", "hooks"),
        ("channels_last", "on", "contiguous"),
        ("low_precision_parameters", "bf16", "change their type"),
    ],
)
def test_changes_of_the_model_that_sharding_does_not_stand_are_refused(
    name: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HERE, "config", {name: value})
    with pytest.raises(Refused, match=reason):
        Fsdp().wrap(nn.Linear(4, 4))


def test_reduced_precision_is_said_to_be_so() -> None:
    assert Fsdp().meaning({"fsdp_precision": "bf16"}) is Semantics.PRECISION
    assert Fsdp().meaning({"fsdp_wrap": "blocks"}) is Semantics.ROUNDING


def test_before_training_there_is_nothing_to_report() -> None:
    assert Fsdp().report() == {}


@pytest.mark.parametrize(
    "profile", [a_profile(roots=(a_root(),), optimizers=(an_optimizer(),)), a_gpu_profile()]
)
def test_an_ordinary_program_can_be_trained(profile: Profile) -> None:
    Fsdp().check(profile, 2)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(roots=(a_root(scripted=True),)), "scripted"),
        (a_profile(optimizers=(an_optimizer(sparse_gradients=True),)), "sparse gradients"),
        (a_profile(roots=(a_root(dtypes=("bfloat16", "float32")),)), "bfloat16, float32"),
        (a_profile(roots=(a_root(parallel="FSDPModule"),)), "FSDPModule itself"),
        (a_profile(run=RunFacts(sum_reduced_loss=True)), "summed over the batch"),
        (a_profile(loader=a_loader(iterable=True)), "iterable"),
        (replace(a_gpu_profile(), target_kind="script"), "script"),
    ],
)
def test_where_it_cannot_train_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Fsdp().check(profile, 2)


def test_what_the_user_writes_is_code() -> None:
    compile(Fsdp().change().snippet, "snippet", "exec")
