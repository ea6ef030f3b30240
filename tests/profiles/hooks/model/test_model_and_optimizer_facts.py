"""What models and optimizers hold, read from them and seen in the first steps."""

from pathlib import Path
from typing import Any

import pytest
import torch
from taps import Program, watching
from torch import nn
from torch.utils.checkpoint import checkpoint

from advisor.profiles.facts.profile import EmbeddingFacts
from advisor.profiles.hooks.model.model_facts import root_facts

HERE = Path(__file__).name


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def test_a_bias_before_a_batch_norm_is_named_and_one_before_another_norm_is_not() -> None:
    facts = root_facts(nn.Sequential(Block(), nn.Linear(4, 2), nn.BatchNorm1d(2)))
    assert facts.biases_before_norm == ("1", "0.conv1")


def test_a_batch_norm_in_evaluation_needs_the_bias() -> None:
    assert root_facts(Block().eval()).biases_before_norm == ()


def test_a_model_is_located_where_its_forward_is_written() -> None:
    location = root_facts(Block()).location
    assert location is not None and Path(location.file).name == HERE
    assert location.line == Block.forward.__code__.co_firstlineno
    assert root_facts(nn.Linear(1, 1)).location is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (nn.Conv2d(3, 8, 3), False),
        (nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last), True),  # type: ignore[call-overload]  # torch
        (nn.Conv2d(3, 8, 1).to(memory_format=torch.channels_last), False),  # type: ignore[call-overload]  # torch
        (nn.Conv1d(3, 8, 3), None),
    ],
)
def test_the_layout_of_convolutions_is_read(model: nn.Module, expected: bool | None) -> None:
    assert root_facts(model).channels_last is expected


def test_a_data_parallel_model_is_known_by_what_it_holds() -> None:
    facts = root_facts(nn.DataParallel(Block()))
    assert (facts.name, facts.parallel, facts.biases_before_norm) == ("Block", "DataParallel", ("conv1",))


class Recomputed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.reentrant = reentrant

    def forward(self, inputs: torch.Tensor) -> Any:
        return checkpoint(self.layer, inputs.requires_grad_(), use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activations_that_are_recomputed_are_noticed(reentrant: bool) -> None:
    kept = vars(torch.utils.checkpoint.CheckpointFunction)["forward"]
    with watching() as taps:
        program = Program(Recomputed(reentrant))
        program.step()
        assert taps.roots.facts()[0].checkpointed
        assert vars(torch.utils.checkpoint.CheckpointFunction)["forward"] is kept  # seen once: let go
        program.step()


def test_a_model_without_checkpoints_is_not_said_to_recompute() -> None:
    with watching() as taps:
        Program().step()
        assert not taps.roots.facts()[0].checkpointed


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(100, 4)
        self.users = nn.EmbeddingBag(10, 4, sparse=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        of_items: torch.Tensor = self.items(torch.tensor([1, 1, 2, 3])).sum()
        of_users: torch.Tensor = self.users(torch.tensor([[1, 2]])).sum()
        return (of_items + of_users) * inputs.mean()


def test_the_rows_that_a_step_reads_are_counted_while_inspected() -> None:
    with watching() as taps:
        program = Program(Recommender())
        program.optimizer = torch.optim.SGD(program.model.parameters(), lr=0.1)
        program.step()
        assert taps.roots.facts()[0].embeddings[0].touched_share is None
        taps.inspect(True)
        program.step()
        program.step()
        taps.inspect(False)
        program.step()
        tables = taps.roots.facts()[0].embeddings
    assert tables == (
        EmbeddingFacts("items", 100, 4, touched_share=0.03, parameter_bytes=1600, tied=False),
        EmbeddingFacts("users", 10, 4, sparse=True, touched_share=0.2, parameter_bytes=160, tied=False),
    )
    assert not program.model.items._forward_pre_hooks  # type: ignore[union-attr]  # nn.Module


def test_a_table_whose_weight_is_used_elsewhere_is_tied() -> None:
    model = nn.ModuleDict({"tokens": nn.Embedding(5, 3), "output": nn.Linear(3, 5, bias=False)})
    model["output"].weight = model["tokens"].weight
    assert root_facts(model).embeddings[0].tied is True


def test_parameters_that_never_get_a_gradient_are_counted() -> None:
    with watching() as taps:
        model = nn.Sequential(nn.Linear(4, 1), nn.Linear(4, 2))
        model.forward = model[0].forward  # type: ignore[method-assign]  # the second layer is unused
        program = Program(model)
        program.step()
        program.step()
        (facts,) = taps.optimizers.facts
        (root,) = taps.roots.facts(taps.optimizers.without_gradient)
    assert (facts.parameters, facts.parameter_bytes, facts.state_bytes) == (15, 60, 20)
    assert (facts.without_gradient_bytes, root.unused_parameters) == (40, 2)


@pytest.mark.parametrize("through", ["optimizer", "model"])
@pytest.mark.parametrize("to_none", [True, False])
def test_the_way_gradients_are_cleared_is_seen_and_timed(through: str, to_none: bool) -> None:
    with watching() as taps:
        program = Program()
        for _ in range(3):
            getattr(program, through).zero_grad(set_to_none=to_none)
            program.model(program.inputs).mean().backward()
            program.optimizer.step()
        (facts,) = taps.optimizers.facts
    assert facts.zeroes_gradients is not to_none
    assert facts.zero_grad_ms is not None and 0 < facts.zero_grad_ms < 50


def test_a_program_that_never_clears_gradients_leaves_that_open() -> None:
    with watching() as taps:
        program = Program()
        program.model(program.inputs).mean().backward()
        program.optimizer.step()
        (facts,) = taps.optimizers.facts
    assert (facts.zeroes_gradients, facts.zero_grad_ms) == (None, None)
