"""Training under DistributedDataParallel in two processes, compared with one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from builders import a_rich_profile
from ranks import Told, run_ranks
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from advisor.profiles.facts.profile import RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.place import HERE, Place
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategies.ddp import Ddp
from advisor.workloads.workload import Workload

STEPS = 50
BYTES = 4 * (8 * 16 + 16 + 16 + 1)  # of all gradients of `linear`


def rows(samples: int = 64, features: int = 8) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, features, generator=generator)
    return TensorDataset(inputs, inputs[:, :3].sum(1, keepdim=True).tanh())


def trained(model: Callable[[], nn.Module], **arguments: Any) -> Workload:
    """SGD with momentum on batches of 16, unless ``arguments`` say otherwise."""
    defaults: dict[str, Any] = {
        "dataset": rows,
        "loss": nn.functional.mse_loss,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        "batch_size": 16,
        "device": "cpu",
    }
    return Workload(model=model, **{**defaults, **arguments})


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def linear() -> Workload:
    return trained(net)


def adamw() -> Workload:
    return trained(net, optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.01), clip_norm=0.5)


def patient() -> Workload:
    """What top-k sends late must not be doubled by momentum."""
    return trained(net, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.02))


def in_two_parts() -> Workload:
    return trained(net, accumulation=2)


def in_thirds() -> Workload:
    return trained(net, batch_size=12)


def with_a_smaller_last_batch() -> Workload:
    return trained(net, dataset=lambda: rows(42), drop_last=False)


class Spare(nn.Module):
    """Has parameters that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.spare, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, inputs: Tensor) -> Any:
        return self.last(self.first(inputs).tanh())


class Dropping(Spare):
    """Uses all parameters at first, and leaves some out later."""

    calls = 0

    def forward(self, inputs: Tensor) -> Any:
        self.calls += 1
        hidden = self.first(inputs).tanh()
        return self.last(hidden + self.spare(hidden) if self.calls % 4 < 3 else hidden)


def spare() -> Workload:
    return trained(Spare)


def spare_in_two_parts() -> Workload:
    return trained(Spare, accumulation=2)


def dropping() -> Workload:
    return trained(Dropping)


class Sparse(nn.Module):
    """Looks rows of a table up; a step gives only those a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(30, 4, sparse=True), nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Any:
        return self.last(self.table((inputs[:, 0] * 10).long().clamp(0, 29)))


def sparse() -> Workload:
    return trained(Sparse, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05))


def wide() -> Workload:
    """Three matrices of 1.1 MB each, so that there are several buckets of 1 MiB."""
    return trained(
        lambda: nn.Sequential(*(nn.Linear(520, 520) for _ in range(3)), nn.Linear(520, 1)),
        dataset=lambda: rows(features=520),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    )


def asks_for_more() -> Workload:
    return trained(Spare, loss=None, step=lambda model, batch: model.first(batch[0]).mean())


def two(
    workload: Callable[[], Workload],
    folder: Path,
    steps: int = STEPS,
    config: Mapping[str, int | str] | None = None,
) -> list[Told]:
    return run_ranks("ddp", workload, folder, steps=steps, config=config, limit_s=60)


def alone(workload: Callable[[], Workload], folder: Path, steps: int = STEPS) -> Told:
    (told,) = run_ranks("single", workload, folder, steps=steps, workers=1)
    assert len(told.losses) == steps
    return told


def assert_same_numbers(ranks: list[Told], one: Told) -> None:
    means = [sum(values) / len(values) for values in zip(*(told.losses for told in ranks), strict=True)]
    assert means == pytest.approx(one.losses, rel=1e-4)
    assert ranks[0].losses != ranks[1].losses
    for told in ranks:
        assert told.parameters.keys() == one.parameters.keys()
        for name, values in one.parameters.items():
            own, expected = torch.tensor(told.parameters[name]), torch.tensor(values)
            torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)
    assert ranks[0].parameters == ranks[1].parameters


@pytest.fixture(scope="module")
def linear_alone(tmp_path_factory: pytest.TempPathFactory) -> Told:
    told = alone(linear, tmp_path_factory.mktemp("alone"))
    assert told.losses[-1] < 0.5 * told.losses[0]
    return told


@pytest.mark.parametrize(
    "config",
    [
        {},
        pytest.param({"bucket_cap_mb": 1}, marks=pytest.mark.long),
        pytest.param({"gradient_as_bucket_view": "on"}, marks=pytest.mark.long),
        pytest.param({"static_graph": "on"}, marks=pytest.mark.long),
        {"find_unused_parameters": "on"},
        {"no_sync": "off", "gradient_as_bucket_view": "on", "static_graph": "on"},
    ],
    ids=str,
)
def test_two_ranks_learn_what_one_process_does(
    config: dict[str, int | str], linear_alone: Told, tmp_path: Path
) -> None:
    ranks = two(linear, tmp_path, config=config)
    assert_same_numbers(ranks, linear_alone)
    for told in ranks:
        assert told.report.pop("exposed_communication_ms") >= 0
        assert told.report == {
            "buckets": 1,
            "bytes_per_step": BYTES,
            "collectives_per_update": 1,
            "communication_hook": "none",
            "exchanges_per_update": 1,
            "find_unused_parameters": "find_unused_parameters" in config,
        }


@pytest.mark.parametrize(
    "workload", [adamw, with_a_smaller_last_batch, pytest.param(sparse, marks=pytest.mark.long)]
)
def test_other_programs_learn_the_same_too(workload: Callable[[], Workload], tmp_path: Path) -> None:
    assert_same_numbers(two(workload, tmp_path), alone(workload, tmp_path))


@pytest.mark.parametrize(
    ("workload", "static_graph"),
    [
        (in_two_parts, "off"),
        pytest.param(spare_in_two_parts, "on", marks=pytest.mark.long),
        pytest.param(in_two_parts, "on", marks=pytest.mark.long),
        pytest.param(spare_in_two_parts, "off", marks=pytest.mark.long),
    ],
)
def test_with_micro_batches_no_sync_changes_bytes_and_not_numbers(
    workload: Callable[[], Workload], static_graph: str, tmp_path: Path
) -> None:
    one = alone(workload, tmp_path)
    sent = []
    for no_sync in ("on", "off"):
        folder = tmp_path / no_sync
        folder.mkdir()
        ranks = two(workload, folder, config={"no_sync": no_sync, "static_graph": static_graph})
        assert_same_numbers(ranks, one)
        sent.append((ranks[0].report["exchanges_per_update"], ranks[0].report["bytes_per_step"]))
    assert sent[0][0] == 1
    assert sent[1] == (2, 2 * sent[0][1])


@pytest.mark.parametrize("static_graph", ["off", "on"])
def test_parameters_without_gradient_are_found_in_the_first_update(static_graph: str, tmp_path: Path) -> None:
    ranks = two(spare, tmp_path, config={"static_graph": static_graph})
    assert_same_numbers(ranks, alone(spare, tmp_path))
    assert ranks[0].report["find_unused_parameters"] == (static_graph == "off")


def test_parameters_left_out_later_need_the_search(tmp_path: Path) -> None:
    ranks = two(dropping, tmp_path, config={"find_unused_parameters": "on"})
    assert_same_numbers(ranks, alone(dropping, tmp_path))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "in some steps only: that needs find_unused_parameters=on"),
        ({"static_graph": "on"}, "static_graph needs the same parameters"),
    ],
)
def test_without_the_search_they_are_refused(
    config: dict[str, int | str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=f"Refused: .*{reason}"):
        two(dropping, tmp_path, config=config)


@pytest.mark.parametrize(
    ("hook", "workload", "steps"),
    [
        ("fp16", linear, 50),
        ("powersgd", linear, 50),
        ("int8", linear, 50),
        pytest.param("topk", patient, 300, marks=pytest.mark.long),
    ],
)
def test_ranks_that_compress_learn_and_stay_alike(
    hook: str, workload: Callable[[], Workload], steps: int, linear_alone: Told, tmp_path: Path
) -> None:
    ranks = two(workload, tmp_path, steps, {"communication_hook": hook})
    for told in ranks:
        assert told.losses[0] == pytest.approx(linear_alone.losses[0], rel=0.5)
        assert sum(told.losses[-4:]) < 0.6 * sum(told.losses[:4])
        assert told.report["bytes_per_step"] < 0.6 * BYTES
    assert ranks[0].parameters == ranks[1].parameters
    assert ranks[0].parameters["0.weight"] != linear_alone.parameters["0.weight"]


@pytest.mark.parametrize(
    "hook",
    ["int8", *(pytest.param(name, marks=pytest.mark.long) for name in ("none", "fp16", "powersgd", "topk"))],
)
def test_several_buckets_are_under_way_at_once(hook: str, tmp_path: Path) -> None:
    ranks = two(wide, tmp_path, 5, {"communication_hook": hook, "bucket_cap_mb": 1})
    assert ranks[0].report["buckets"] >= 3
    assert ranks[0].parameters == ranks[1].parameters
    if hook == "none":
        assert_same_numbers(ranks, alone(wide, tmp_path, 5))


@pytest.mark.long
def test_three_ranks_learn_the_same_and_compress_alike(tmp_path: Path) -> None:
    ranks = run_ranks("ddp", in_thirds, tmp_path, steps=STEPS, workers=3, limit_s=60)
    assert_same_numbers(ranks, alone(in_thirds, tmp_path))
    assert ranks[0].report["bytes_per_step"] == round(4 / 3 * BYTES)
    folder = tmp_path / "int8"
    folder.mkdir()
    config = {"communication_hook": "int8"}
    compressed = run_ranks("ddp", in_thirds, folder, steps=STEPS, workers=3, config=config, limit_s=60)
    assert all(told.parameters == compressed[0].parameters for told in compressed)
    own, whole = torch.tensor(compressed[0].losses), torch.tensor(ranks[0].losses)
    assert 0 < float((own - whole).abs().max()) < 0.02


def uneven() -> Workload:
    """Checked here, in each process: after an epoch all have the state of the rank with most batches."""
    ddp = STRATEGIES["ddp"]
    assert isinstance(ddp, Ddp)
    model = ddp.wrap(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    inputs, target = rows().tensors
    batches = 3 + 2 * HERE.place.rank

    def loss(called: nn.Module, batch: Any) -> Tensor:
        return nn.functional.mse_loss(called(batch[0]), batch[1])

    for epoch in range(2):
        with ddp.epoch(model, optimizer, batches):
            for _ in range(batches):
                with ddp.micro_batch(model, last=True):
                    ddp.forward_backward(loss, model, (inputs, target), 1)
                optimizer.step()
                optimizer.zero_grad()
        for parameter in model.parameters():
            state = optimizer.state[parameter]
            assert float(state["step"]) == 5 * (epoch + 1)
            for tensor in (parameter.detach(), state["exp_avg"], state["exp_avg_sq"]):
                first = tensor.clone()
                dist.broadcast(first, 0)
                assert torch.equal(first, tensor)
    with torch.no_grad():
        for _ in range(batches):
            model(inputs)  # as many as each rank likes
    return linear()


@pytest.mark.parametrize("hook", ["none", "fp16", "powersgd", "topk", "int8"])
def test_ranks_may_have_differently_many_batches(hook: str, tmp_path: Path) -> None:
    run_ranks("single", uneven, tmp_path, steps=0, config={"communication_hook": hook}, limit_s=60)


def test_a_step_that_asks_the_model_for_more_than_an_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"Refused: .*uses model\.first"):
        two(asks_for_more, tmp_path, 2)


@pytest.mark.parametrize(
    ("model", "config", "reason"),
    [
        (nn.Linear(1, 1).requires_grad_(False), {}, "no parameter of the model is trained"),
        (nn.Linear(1, 1), {"communication_hook": "bf16"}, "gloo has no communication hook for bf16"),
        (Sparse(), {"communication_hook": "topk"}, "sparse gradients cannot be sent by"),
        (nn.ParameterList([torch.tensor(1.0)]), {"communication_hook": "powersgd"}, "without dimensions"),
        (nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1, device="meta")]), {}, "several devices"),
    ],
)
def test_models_that_it_cannot_train_are_refused(
    model: nn.Module, config: dict[str, int | str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HERE, "place", Place(rank=0, workers=2))
    monkeypatch.setattr(HERE, "config", config)
    with pytest.raises(Refused, match=reason):
        Ddp().wrap(model)


def test_a_process_alone_is_refused() -> None:
    with pytest.raises(Refused, match="alone"):
        Ddp().wrap(nn.Linear(1, 1))


def test_programs_that_cannot_be_divided_are_refused() -> None:
    Ddp().check(a_rich_profile(), 2)
    with pytest.raises(Refused, match="summed"):
        Ddp().check(a_rich_profile(run=RunFacts(sum_reduced_loss=True)), 2)


def test_the_hook_decides_what_it_does_to_the_numbers() -> None:
    assert Ddp().meaning({"strategy": "ddp"}) is Semantics.ROUNDING
    assert Ddp().meaning({"communication_hook": "fp16"}) is Semantics.PRECISION
    for hook in ("powersgd", "topk", "int8"):
        assert Ddp().meaning({"communication_hook": hook}) is Semantics.TRAINING


def test_before_it_has_begun_there_is_nothing_to_report() -> None:
    assert Ddp().report() == {}
