from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from builders import a_machine, a_profile, a_run
from torch import nn
from torch._functorch import config as settings

from advisor.profiles.events import Run
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.activation_memory_budget import ActivationMemoryBudget
from advisor.tuners.knobs.execution import Execution


@pytest.fixture(autouse=True)
def budget_kept() -> Iterator[None]:
    before = settings.activation_memory_budget
    yield
    settings.activation_memory_budget = before


def a_run_with(execution: str, budget: str) -> Run:
    run = a_run(execution=Execution(), activation_memory_budget=ActivationMemoryBudget())
    run.configure({"execution": execution, "activation_memory_budget": budget})
    return run


def test_the_budget_is_set_before_anything_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **how: function)
    root, run = nn.Linear(2, 2), a_run_with("compile", "0.5")
    run.call(root.forward, root)
    assert settings.activation_memory_budget == 0.5
    assert (run.unanswered(), run.refused) == ([], {})


def test_without_compiled_code_it_is_refused() -> None:
    root, run = nn.Linear(2, 2), a_run_with("eager", "0.5")
    run.call(root.forward, root)
    assert "needs an execution that compiles" in run.refused["activation_memory_budget"]
    assert settings.activation_memory_budget == 1.0


def test_a_torch_without_the_setting_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    knob = ActivationMemoryBudget()
    knob.prepare({"execution": "compile"}, {})
    monkeypatch.setattr("torch._functorch.config", object())
    with pytest.raises(Refused, match="has no activation_memory_budget"):
        knob.call(len, nn.Linear(2, 2), "0.5")


def kept_bytes(monkeypatch: pytest.MonkeyPatch, budget: str) -> int:
    """Bytes that the forward of a compiled model keeps for backward."""
    torch._dynamo.reset()
    settings.activation_memory_budget = 1.0
    with monkeypatch.context() as patched:
        patched.setattr(torch, "compile", partial(torch.compile, backend="aot_eager_decomp_partition"))
        layers: list[Any] = [part for _ in range(2) for part in (nn.Linear(16, 16), nn.GELU())]
        root = nn.Sequential(*layers)
        run = a_run_with("compile", budget)
        function = run.call(root.forward, root)
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = function(torch.ones(256, 16))
    output.sum().backward()
    return sum(tensor.nbytes for tensor in {tensor.data_ptr(): tensor for tensor in kept}.values())


@pytest.mark.slow
def test_a_smaller_budget_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_bytes(monkeypatch, "0.3") < 0.7 * kept_bytes(monkeypatch, "1.0")


def test_shares_down_to_a_third_are_tried() -> None:
    assert ActivationMemoryBudget().choices(a_profile()) == ["1.0", "0.7", "0.5", "0.3"]


def test_without_a_compiler_there_is_no_budget() -> None:
    with pytest.raises(Refused, match="no C\\+\\+ compiler"):
        ActivationMemoryBudget().choices(a_profile(a_machine(has_compiler=False)))


def test_what_the_user_writes() -> None:
    snippet = ActivationMemoryBudget().change("0.7").snippet
    assert snippet.endswith("torch._functorch.config.activation_memory_budget = 0.7")
