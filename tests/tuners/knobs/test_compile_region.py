from functools import partial
from typing import Any

import pytest
import torch
from builders import a_machine, a_profile, a_root, a_run
from torch import nn

from advisor.profiles.run import Run
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.compile_region import CompileRegion
from advisor.tuners.knobs.execution import Execution

INPUTS = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(inputs))


def a_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(Block(), Block(), Block()), nn.Linear(4, 1))


def a_run_with(execution: str, region: str) -> Run:
    run = a_run(execution=Execution(), compile_region=CompileRegion())
    run.configure({"execution": execution, "compile_region": region})
    return run


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What torch was asked to compile, and how; nothing is compiled."""
    asked: list[Any] = []

    def compile(function: Any, **how: Any) -> Any:
        asked.append((function.__self__, how["mode"]))
        return function

    monkeypatch.setattr(torch, "compile", compile)
    return asked


def test_each_block_is_compiled_and_the_model_is_not(compiled: list[Any]) -> None:
    model, run = a_model(), a_run_with("compile-max-autotune-no-cudagraphs", "blocks")
    assert run.call(model.forward, model) == model.forward
    assert compiled == [(block, "max-autotune-no-cudagraphs") for block in model[1].children()]
    assert all(block._compiled_call_impl is not None for block in model[1].children())
    run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert (run.unanswered(), run.refused) == ([], {})


def test_a_root_without_blocks_is_compiled_as_a_whole(compiled: list[Any]) -> None:
    head, model, run = nn.Linear(4, 4), a_model(), a_run_with("compile", "blocks")
    run.call(head.forward, head)
    run.call(model.forward, model)
    assert [module for module, _ in compiled] == [head, *model[1].children()]
    run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert run.refused == {}


def test_without_any_blocks_it_is_refused(compiled: list[Any]) -> None:
    head, run = nn.Linear(4, 4), a_run_with("compile", "blocks")
    run.call(head.forward, head)
    run.optimizer(torch.optim.SGD(head.parameters(), lr=0.1))
    assert "no two blocks" in run.refused["compile_region"]


def test_without_compiled_code_it_is_refused(compiled: list[Any]) -> None:
    model, run = a_model(), a_run_with("eager", "blocks")
    run.call(model.forward, model)
    assert run.refused == {"compile_region": "compile_region needs an execution that compiles"}
    assert compiled == []


@pytest.mark.slow
def test_blocks_of_one_class_share_one_graph_and_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    bare, model, run = a_model(), a_model(), a_run_with("compile", "blocks")
    function = run.call(model.forward, model)
    counters.clear()
    output = function(INPUTS)
    assert counters["stats"]["unique_graphs"] == 1
    assert torch.equal(output, bare(INPUTS))
    output.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_models_with_blocks_are_offered_them() -> None:
    assert CompileRegion().choices(a_profile(roots=(a_root(repeated_blocks=2),))) == ["model", "blocks"]


def test_a_model_without_blocks_is_told_so() -> None:
    with pytest.raises(Refused, match="no two blocks"):
        CompileRegion().choices(a_profile(roots=(a_root(),)))


def test_without_a_compiler_there_is_no_region() -> None:
    with pytest.raises(Refused, match="no C\\+\\+ compiler"):
        CompileRegion().choices(a_profile(a_machine(has_compiler=False), roots=(a_root(repeated_blocks=2),)))


def test_what_the_user_writes() -> None:
    assert "block.compile()" in CompileRegion().change("blocks").snippet
