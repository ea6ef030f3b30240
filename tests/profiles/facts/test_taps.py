"""Small pieces of the taps, one behaviour each."""

from collections import UserDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import OptimizerFacts, RootFacts
from advisor.profiles.hooks.model.model_facts import root_facts
from advisor.profiles.hooks.model.owners import owner
from advisor.profiles.hooks.optimizer.reduction import is_sum_reduced
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.surroundings.precisions import matmul_precision
from advisor.profiles.hooks.tensors import inner_shapes, leading_size, total_bytes
from advisor.profiles.hooks.watch import Watch, period_of


@dataclass
class Sample:
    weight: float
    image: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (torch.ones(3, 2), 3),
        ([torch.ones(5), torch.ones(3)], 5),
        ({"scale": torch.tensor(1.0), "rows": torch.ones(4, 1)}, 4),
        (UserDict(ids=torch.ones(6, 2)), 6),
        (Sample(0.5, torch.ones(7, 3, 3)), 7),
        (("text", [{"deep": (torch.ones(2),)}]), 2),
        ("text", 0),
    ],
)
def test_a_batch_has_the_size_of_its_first_tensor(batch: Any, size: int) -> None:
    assert leading_size(batch) == size


def test_bytes_and_shapes_cover_all_tensors_of_a_batch() -> None:
    batch = {"a": torch.ones(2, 3), "b": [torch.ones(2, dtype=torch.int64)]}
    assert (total_bytes(batch), inner_shapes(batch)) == (40, ((3,), ()))


def test_a_convolutional_network_is_described() -> None:
    block = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Sequential(block, block), nn.Dropout(0.1)
    )
    assert root_facts(model) == RootFacts(
        name="Sequential",
        parameters=236,
        parameter_bytes=944,
        dtypes=("float32",),
        devices=("cpu",),
        dense_convolutions=2,
        grouped_convolutions=1,
        convolution_dimensions=(2,),
        has_batch_norm=True,
        has_dropout=True,
        channels_last=False,
        biases_before_norm=("2.0.0",),
    )


def test_the_owner_is_the_smallest_module_with_all_parameters_and_the_outer_one_of_equals() -> None:
    head = nn.Linear(2, 2)
    wrapped = nn.Sequential(nn.Sequential(head))
    whole = nn.ModuleList([wrapped, nn.Linear(2, 2)])
    assert owner(torch.optim.SGD(head.parameters(), lr=1)) is wrapped
    assert owner(torch.optim.SGD(whole.parameters(), lr=1)) is whole
    assert owner(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1)) is None


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ([], 1),
        ([0, 0, 0], 1),
        ([0, 1, 0, 1, 0], 1),
        ([0, 0, 0, 0, 0, 1, 0, 0], 5),
        ([0, 12, 0], 1),
    ],
)
def test_the_first_optimizer_is_counted_in_the_shortest_repeating_order(
    sequence: list[int], expected: int
) -> None:
    assert period_of(sequence) == expected


def test_reductions_are_read_from_the_graph() -> None:
    weight = torch.ones(4, 1, requires_grad=True)
    target = torch.zeros(4, 1)
    cross_entropy = nn.functional.cross_entropy(weight @ weight.T, torch.arange(4), reduction="sum")
    losses = [
        nn.functional.mse_loss(weight, target),
        nn.functional.mse_loss(weight, target, reduction="sum"),
        nn.functional.mse_loss(weight, target, reduction="sum") / 4,
        -0.5 * weight.sum() + cross_entropy,
        weight.logsumexp(0).squeeze(),
    ]
    assert [is_sum_reduced(loss) for loss in losses] == [False, True, None, True, None]


def test_the_newer_precision_setting_is_understood() -> None:
    kept = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        assert matmul_precision() == "high"
    finally:
        torch.backends.cuda.matmul.fp32_precision = kept


def watched(run: Run | None = None) -> tuple[Watch, list[Step]]:
    steps: list[Step] = []
    return Watch(run or Run({}, {}), Clock(steps.append)), steps


def test_an_optimizer_inside_another_is_one_update() -> None:
    class Slow(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure: Any = None) -> Any:
            self.inner.step()

    watch, steps = watched()
    watch.install()
    model = nn.Linear(2, 1)
    slow = Slow(torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        model(torch.ones(4, 2)).sum().backward()
        slow.step()
    watch.remove()
    assert [step.sequence for step in steps] == ["0", "0", "0"]
    assert len(watch.losses()) == 3


def test_optimizers_are_described_as_the_program_made_them() -> None:
    watch, _ = watched()
    watch.install()
    model = nn.Linear(2, 1)
    adam = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=False)
    model(torch.ones(4, 2)).sum().backward()
    adam.step()
    watch.remove()
    (facts,) = watch._optimizers.facts
    assert facts.location is not None and Path(facts.location.file) == Path(__file__)
    assert replace(facts, location=None) == OptimizerFacts(
        "AdamW",
        lr=0.25,
        foreach=False,
        has_foreach=True,
        has_fused=True,
        parameters=3,
        parameter_bytes=12,
        state_bytes=32,
        without_gradient_bytes=0,
        groups=1,
        distinct_groups=1,
        updates=1,
    )


def test_batches_fetched_by_a_thread_disturb_no_phase() -> None:
    import threading

    watch, steps = watched()
    watch.install()
    model = nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    iterator = iter(DataLoader(TensorDataset(torch.ones(12, 2)), batch_size=4))
    batches: list[torch.Tensor] = []
    fetcher = threading.Thread(target=lambda: batches.extend(batch for (batch,) in iterator))
    model(torch.ones(1, 2)).sum().backward()
    sgd.step()
    fetcher.start()
    fetcher.join()
    for batch in batches:
        model(batch).sum().backward()
        sgd.step()
    watch.remove()
    assert len(steps) == 4 and [step.loader_samples for step in steps] == [0, 12, 0, 0]
    assert all("input_wait" not in step.phases_ns for step in steps[1:])


def test_a_training_loop_in_a_thread_is_watched() -> None:
    import threading

    watch, steps = watched()
    watch.install()

    def train() -> None:
        model = nn.Linear(2, 1)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.ones(4, 2)).sum().backward()
            sgd.step()

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    watch.remove()
    assert len(steps) == 3 and "forward" in steps[-1].phases_ns


def test_a_forward_is_watched_whatever_its_module_calls_id_and_type() -> None:
    names: dict[str, Any] = {"nn": nn, "id": "run-1", "type": "net"}
    exec(
        "class Net(nn.Linear):\n    def forward(self, inputs):\n        return inputs @ self.weight.T\n",
        names,
    )
    watch, steps = watched()
    watch.install()
    model = names["Net"](2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(4, 2)).sum().backward()
        sgd.step()
    watch.remove()
    assert [(step.root_samples, "forward" in step.phases_ns) for step in steps] == [(4, True)] * 2


def compiled_graphs(is_watched: bool) -> tuple[int, bool | None]:
    """Graphs that dynamo makes of a program that compiles its own step, and whether that was seen."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    watch, _ = watched()
    if is_watched:
        watch.install()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    forward = torch.compile(lambda inputs: model(inputs), backend="eager")
    module = torch.compile(model, backend="eager")
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        module(torch.ones(2, 4))
    for _ in range(3):
        forward(torch.ones(2, 4)).sum().backward()
        module(torch.ones(2, 4)).sum().backward()
        sgd.step()
    seen = None
    if is_watched:
        watch.remove()
        seen = watch._roots.facts()[0].already_compiled
    return counters["stats"]["unique_graphs"], seen


def test_a_program_that_compiles_itself_compiles_no_more_often_when_watched() -> None:
    bare, _ = compiled_graphs(is_watched=False)
    assert compiled_graphs(is_watched=True) == (bare, True)
