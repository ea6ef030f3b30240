import os
import weakref
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_loader, a_profile, a_root, an_optimizer
from ranks import Told, run_ranks
from sharded_training import STEPS, a_workload, clipped_and_accumulated, sgd
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.strategies.pipeline import Pipeline
from advisor.workloads.workload import Workload

pytestmark = pytest.mark.slow

PARTS = 4
WIDTHS = [6, 24, 16, 16, 8, 8, 1]
DATA = TensorDataset(
    torch.linspace(-2, 2, 64 * 6).sin().reshape(64, 6) * 2, torch.linspace(-3, 3, 64).cos().reshape(64, 1)
)
BATCH = 16


def an_mlp() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(WIDTHS):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


def mlp() -> Workload:
    return a_workload(model=an_mlp)


def mlp_with_momentum() -> Workload:
    return a_workload(model=an_mlp, optimizer=sgd)


def mlp_clipped() -> Workload:
    return clipped_and_accumulated_of(an_mlp)


def clipped_and_accumulated_of(model: Any) -> Workload:
    plain = clipped_and_accumulated()
    return a_workload(model=model, accumulation=plain.accumulation, clip_norm=plain.clip_norm)


def mlp_with_a_smaller_last_batch() -> Workload:
    rows = TensorDataset(*(tensor[:42] for tensor in DATA.tensors))  # 16, 16 and 10, which 4 does not divide
    return a_workload(model=an_mlp, dataset=lambda: rows, drop_last=False)


def losses_of(told: Sequence[Told], parts: Sequence[int]) -> list[float]:
    """Means over the micro-batches of each batch, at the last stage; what proved the split came before."""
    seen = told[-1].losses[-sum(parts) :]
    means = []
    for count in parts:
        means.append(sum(seen[:count]) / count)
        seen = seen[count:]
    return means


def assert_alike(told: Sequence[Told], single: Told, parts: Sequence[int]) -> None:
    """The stages together learnt what one process did."""
    assert losses_of(told, parts) == pytest.approx(single.losses, rel=1e-4)
    together: dict[str, list[float]] = {}
    for each in told:
        assert together.keys().isdisjoint(each.parameters)
        together.update(each.parameters)
    assert together.keys() == single.parameters.keys()
    for name, values in single.parameters.items():
        assert together[name] == pytest.approx(values, rel=1e-4, abs=1e-5), name


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What one process learns in as many steps."""
    return run_ranks("single", mlp, tmp_path_factory.mktemp("single"), workers=1, steps=STEPS)[0]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"schedule": "1f1b", "pipeline_chunks": 2},
        pytest.param({"schedule": "1f1b"}, marks=pytest.mark.long),
        pytest.param({"pipeline_chunks": 8}, marks=pytest.mark.long),
    ],
)
def test_two_stages_learn_what_one_process_does(
    config: Mapping[str, int | str], tmp_path: Path, single: Told
) -> None:
    parts = int(config.get("pipeline_chunks", PARTS))
    told = run_ranks("pipeline", mlp, tmp_path, steps=STEPS, config=config)
    assert single.losses[-1] < 0.5 * single.losses[0]
    assert_alike(told, single, [parts] * STEPS)
    assert [each.report["schedule"] for each in told] == [config.get("schedule", "gpipe")] * 2


@pytest.mark.long
def test_three_stages_do_too(tmp_path: Path, single: Told) -> None:
    told = run_ranks("pipeline", mlp, tmp_path, workers=3, steps=STEPS, config={"schedule": "1f1b"})
    assert_alike(told, single, [PARTS] * STEPS)


@pytest.mark.long
def test_momentum_gives_the_same(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", mlp_with_momentum, tmp_path / "single", workers=1, steps=STEPS)
    assert_alike(run_ranks("pipeline", mlp_with_momentum, tmp_path, steps=STEPS), alone, [PARTS] * STEPS)


def test_accumulation_and_clipping_over_all_stages_give_the_same(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", mlp_clipped, tmp_path / "single", workers=1, steps=STEPS)
    assert_alike(run_ranks("pipeline", mlp_clipped, tmp_path, steps=STEPS), alone, [PARTS] * STEPS)


@pytest.mark.long
def test_a_smaller_last_batch_is_split_as_far_as_it_can_be(tmp_path: Path) -> None:
    parts = [4, 4, 2] * 3
    (alone,) = run_ranks(
        "single", mlp_with_a_smaller_last_batch, tmp_path / "single", workers=1, steps=len(parts)
    )
    told = run_ranks("pipeline", mlp_with_a_smaller_last_batch, tmp_path, steps=len(parts))
    assert_alike(told, alone, parts)


def test_what_travels_is_activations_and_their_gradients(tmp_path: Path) -> None:
    first, last = run_ranks("pipeline", mlp, tmp_path, steps=1)
    layers = [int(name.partition(".")[0]) // 2 for name in last.parameters]
    width = WIDTHS[min(layers)]  # of what its first layer takes
    assert [each.report["bytes_per_step"] for each in (first, last)] == [4 * BATCH * width] * 2
    assert first.report["stages"] == 2
    assert first.report["micro_batches"] == PARTS
    assert first.report["bubble_share"] == pytest.approx(1 / 5)
    largest = [4 * max(map(len, each.parameters.values())) for each in (first, last)]
    assert [each.report["largest_parameter_bytes"] for each in (first, last)] == largest
    numbers = [each.report["stage_parameters"] for each in (first, last)]
    assert numbers == [sum(map(len, each.parameters.values())) for each in (first, last)]


MADE: list[weakref.ref[nn.Module]] = []  # linear layers of the model, in the process of a rank


def loss_while_layers_are_counted(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Fails in training where another stage's layers are still there; what proves stages hands on leaves."""
    if output.grad_fn is not None:
        assert sum(layer() is not None for layer in MADE) < len(MADE)
    return nn.functional.mse_loss(output, target)


def mlp_of_counted_layers() -> Workload:
    def model() -> nn.Module:
        made = an_mlp()
        MADE.extend(weakref.ref(layer) for layer in made if isinstance(layer, nn.Linear))
        return made

    return a_workload(model=model, loss=loss_while_layers_are_counted)


def test_a_rank_gives_the_other_stages_back(tmp_path: Path) -> None:
    run_ranks("pipeline", mlp_of_counted_layers, tmp_path, steps=2)


def dropping() -> Workload:
    """Random numbers are drawn in the first stage only, and batches shuffled by the same generator."""
    model = [nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 8), nn.Linear(8, 1)]
    return a_workload(model=lambda: nn.Sequential(*model), shuffle=True)


def test_stages_that_draw_random_numbers_still_load_the_same_batches(tmp_path: Path) -> None:
    run_ranks("pipeline", dropping, tmp_path, steps=9)  # four batches an epoch; the eighth is compared


class Drifting(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Differs from process to process."""

    def __len__(self) -> int:
        return BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((6,), os.getpid() % 1000), torch.zeros(1)


def drifting() -> Workload:
    return a_workload(model=an_mlp, dataset=Drifting)


def test_ranks_that_load_different_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Refused: the ranks loaded different batches"):
        run_ranks("pipeline", drifting, tmp_path, steps=1)


def evaluated() -> Workload:
    """After each update, the model in evaluation answers with the report."""
    from advisor.tuners.strategies import STRATEGIES

    used, answers = STRATEGIES["pipeline"], {}
    count = used.updated

    def evaluate(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        count(model, optimizer)
        model.eval()
        with torch.no_grad():
            answers["outputs"] = model(DATA.tensors[0][:3]).flatten().tolist()
        model.train()

    used.updated, used.report = evaluate, lambda: answers  # type: ignore[method-assign]
    return mlp()


def test_in_evaluation_every_rank_has_the_output_of_the_whole_model(tmp_path: Path) -> None:
    told = run_ranks("pipeline", evaluated, tmp_path, steps=2)
    model = an_mlp()
    with torch.no_grad():
        for each in told:
            for name, values in each.parameters.items():
                parameter = model.get_parameter(name)
                parameter.copy_(torch.tensor(values).reshape(parameter.shape))
        expected = model(DATA.tensors[0][:3].clone()).flatten().tolist()
    for each in told:
        assert each.report["outputs"] == pytest.approx(expected, rel=1e-5)


def summed() -> Workload:
    return a_workload(model=an_mlp, loss=nn.MSELoss(reduction="sum"))


def regularised() -> Workload:
    def step(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        norms = torch.stack([parameter.norm() for parameter in model.parameters()])
        return nn.functional.mse_loss(model(batch[0]), batch[1]) + norms.sum()

    return a_workload(model=an_mlp, loss=None, step=step)


def normed() -> Workload:
    layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)]
    return a_workload(model=lambda: nn.Sequential(*layers))


@pytest.mark.parametrize(
    ("workload", "config", "reason"),
    [
        (summed, {}, "not the mean of the losses of its parts"),
        (regularised, {}, "does more with the model"),
        (normed, {}, "batch norm"),
        (mlp, {"amp": "fp16"}, "fp16 scales a loss"),
        (mlp, {"schedule": "1f1b", "pipeline_chunks": 1}, "needs at least 2 micro-batches, not 1"),
    ],
)
def test_what_stages_would_not_learn_alike_is_refused(
    workload: Any, config: Mapping[str, int | str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=f"Refused: .*{reason}"):
        run_ranks("pipeline", workload, tmp_path, steps=1, config=config)


def test_one_process_has_no_stages() -> None:
    with pytest.raises(Refused, match="two stages or more"):
        Pipeline().wrap(an_mlp())


def test_before_training_there_is_nothing_to_report() -> None:
    assert Pipeline().report() == {}


def test_an_ordinary_program_can_be_trained() -> None:
    Pipeline().check(a_profile(optimizers=(an_optimizer(),), roots=(a_root(),), loader=a_loader()), 2)
    Pipeline().check(a_profile(), 2)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(roots=(a_root(has_batch_norm=True),)), "batch norm"),
        (a_profile(roots=(a_root(parallel="DataParallel"),)), "DataParallel itself"),
        (a_profile(roots=(a_root(scripted=True),)), "scripted"),
        (a_profile(optimizers=(an_optimizer("LBFGS", closure=True),)), "closure"),
        (a_profile(run=RunFacts(sum_reduced_loss=True)), "summed over the batch"),
        (a_profile(loader=a_loader(batch_size=1)), "cannot be split"),
        (a_profile(target_kind="script"), "script"),
    ],
)
def test_where_it_cannot_train_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Pipeline().check(profile, 2)


def test_what_the_user_writes_is_code() -> None:
    compile(Pipeline().change().snippet, "snippet", "exec")
