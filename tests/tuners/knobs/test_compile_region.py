from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from builders import a_machine, a_profile, a_root, a_run, an_optimizer
from small_training import watched
from torch import nn
from torch.nn.functional import mse_loss

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.compile_region import CompileRegion
from advisor.tuners.knobs.execution import Execution
from advisor.tuners.mechanisms.joined_loss import EVALUATED, JOINING, SEPARATE, joins

INPUTS = torch.linspace(-1, 1, 8).reshape(2, 4)
TARGET = torch.tensor([[0.5], [-0.5]])
OPTIMIZERS: tuple[Any, ...] = (torch.optim.SGD, torch.optim.AdamW, torch.optim.LBFGS, torch.optim.SparseAdam)


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
        asked.append((getattr(function, "__self__", function), how["mode"]))
        return function

    monkeypatch.setattr(torch, "compile", compile)
    return asked


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Loss and updates are as before after a test: a trial has a process of its own."""
    for kind in OPTIMIZERS:
        kind([nn.Parameter(torch.zeros(1))], lr=0.1)  # torch puts its hooks around `step` when one is made
    kept = [(cell, cell.cell_contents) for kind in OPTIMIZERS for cell in kind.step.__closure__]
    yield
    for cell, contents in kept:
        cell.cell_contents = contents
    JOINING.on, JOINING.refusal, JOINING._joined = False, SEPARATE, None


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


def test_the_update_is_compiled_inside_the_hooks_of_torch(compiled: list[Any]) -> None:
    model, run = a_model(), a_run_with("compile-max-autotune", "optimizer")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("hook"))
    outside = torch.optim.SGD.step
    run.optimizer(optimizer)
    run.optimizer(torch.optim.SGD(model.parameters(), lr=0.2))
    assert [(function.__qualname__, mode) for function, mode in compiled] == [("SGD.step", "max-autotune")]
    last: Any = model[2]
    before = last.weight.detach().clone()
    model(INPUTS).sum().backward()
    optimizer.step()
    assert seen == ["hook"] and not torch.equal(last.weight, before)
    assert torch.optim.SGD.step is outside and run.refused == {}


@pytest.mark.slow
def test_beside_a_compiled_update_the_model_stays_eager() -> None:
    from torch._dynamo.utils import counters

    model, run = a_model(), a_run_with("compile", "optimizer")
    function = run.call(model.forward, model)
    before = counters["frames"]["total"]
    assert torch.equal(function(INPUTS), model(INPUTS))
    assert (counters["frames"]["total"], run.refused) == (before, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer_of",
    [
        pytest.param(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), id="SGD"),
        pytest.param(
            lambda parameters: torch.optim.AdamW(parameters, lr=0.05), id="AdamW", marks=pytest.mark.long
        ),
    ],
)
def test_a_compiled_update_computes_the_same_under_a_falling_rate(
    optimizer_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))

    frames: list[int] = []

    def train(run: Run | None) -> nn.Sequential:
        model = a_model()
        optimizer = optimizer_of(model.parameters())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
        for _ in range(6):
            mse_loss(model(INPUTS), TARGET).backward()
            if run is not None:
                run.optimizer(optimizer)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            frames.append(counters["frames"]["total"])
        return model

    own = train(None)
    torch._dynamo.reset()  # what other tests compiled is forgotten
    counters.clear()
    frames.clear()
    ours = train(a_run_with("compile", "optimizer"))
    assert 0 < counters["stats"]["unique_graphs"] <= 2  # without state and with it
    assert frames[1:] == [frames[1]] * 5  # nothing is looked at again for another rate
    for one, other in zip(ours.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_rate_is_a_number_again_after_a_compiled_update(compiled: list[Any]) -> None:
    weights = [nn.Parameter(torch.zeros(())) for _ in range(2)]
    groups = [{"params": [weight], "lr": rate} for weight, rate in zip(weights, (0.1, 0.3), strict=True)]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    a_run_with("compile", "optimizer").optimizer(optimizer)
    for weight in weights:
        weight.grad = torch.ones(())
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.2
    optimizer.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.3]
    assert [weight.item() for weight in weights] == pytest.approx([-0.3, -0.6])


def test_updates_that_torch_does_not_compile_are_refused(compiled: list[Any]) -> None:
    class Own(torch.optim.SGD):
        pass

    def refusal(kind: Any, **settings: Any) -> str:
        run = a_run_with("compile", "optimizer")
        run.optimizer(kind([nn.Parameter(torch.zeros(1))], lr=0.1, **settings))
        return run.refused["compile_region"]

    assert "does not compile the update of LBFGS" in refusal(torch.optim.LBFGS)
    assert "one kernel already" in refusal(torch.optim.SGD, fused=True)
    assert "differentiable" in refusal(torch.optim.AdamW, differentiable=True)
    assert "Own is none of torch's own" in refusal(Own)
    assert compiled == []


def test_sparse_gradients_are_seen_before_the_first_update(compiled: list[Any]) -> None:
    table, run = nn.Embedding(4, 2, sparse=True), a_run_with("compile", "optimizer")
    table(torch.tensor([1])).sum().backward()
    run.optimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    assert "sparse gradients" in run.refused["compile_region"]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"optimizers": ()}, "without torch.optim"),
        ({"optimizers": (an_optimizer("LBFGS", closure=True),)}, "update of LBFGS"),
        ({"optimizers": (an_optimizer(), an_optimizer("SGD", closure=True))}, "SGD calls a closure"),
        ({"optimizers": (an_optimizer(fused=True),)}, "one kernel already"),
        ({"optimizers": (an_optimizer(sparse_gradients=True),)}, "sparse gradients"),
    ],
)
def test_what_is_known_of_the_optimizers_refuses_it_before_a_trial(
    facts: dict[str, Any], reason: str
) -> None:
    profile: Profile = a_profile(**facts)
    with pytest.raises(Refused, match=reason):
        CompileRegion().check("optimizer", profile)
    CompileRegion().check("optimizer", a_profile(optimizers=(an_optimizer(),)))


def a_loop(run: Run, model: nn.Module, *, evaluates: bool = False) -> list[float]:
    """Losses of three steps of the reference loop."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(run) as watch:
        for _ in range(3):
            JOINING.loss(mse_loss, model, (INPUTS, TARGET), evaluates=evaluates).backward()
            optimizer.step()
            optimizer.zero_grad()
        return watch.losses()


def test_model_and_loss_are_compiled_as_one(compiled: list[Any]) -> None:
    model, run = a_model(), a_run_with("compile", "model+loss")
    losses = a_loop(run, model)
    assert [joins(module, model) for module, _ in compiled] == [True]
    assert (run.unanswered(), run.refused) == ([], {})
    JOINING.on = False
    assert losses == a_loop(a_run(), a_model())


def test_a_loss_that_is_computed_elsewhere_is_refused(compiled: list[Any]) -> None:
    model, run = a_model(), a_run_with("compile", "model+loss")
    run.call(model.forward, model)
    assert "a `step` of its own" in run.refused["compile_region"]


def test_a_model_that_is_also_evaluated_stays_apart_from_its_loss(compiled: list[Any]) -> None:
    model, run = a_model(), a_run_with("compile", "model+loss")
    a_loop(run, model, evaluates=True)
    assert run.refused["compile_region"] == EVALUATED


def test_nothing_is_joined_unless_it_is_asked_for() -> None:
    run = a_run_with("compile", "blocks")
    assert not JOINING.on and run.refused == {}
    a_run_with("eager", "model+loss")
    assert not JOINING.on
    a_run_with("compile", "model+loss")
    assert JOINING.on


def test_a_script_keeps_its_loss_and_is_told_what_to_write() -> None:
    with pytest.raises(Refused, match="write `loss_of = "):
        CompileRegion().check("model+loss", a_profile(target_kind="script"))
    CompileRegion().check("model+loss", a_profile())


def test_only_blocks_are_tried_unless_others_are_named() -> None:
    knob = CompileRegion()
    profile = a_profile(roots=(a_root(repeated_blocks=2),), optimizers=(an_optimizer(),))
    assert knob.choices(profile) == ["model", "blocks"]
    assert [knob.parse(value) for value in ("model+loss", "optimizer")] == ["model+loss", "optimizer"]


def test_models_with_blocks_are_offered_them() -> None:
    assert CompileRegion().choices(a_profile(roots=(a_root(repeated_blocks=2),))) == ["model", "blocks"]


def test_a_model_without_blocks_is_told_so() -> None:
    with pytest.raises(Refused, match="no two blocks"):
        CompileRegion().choices(a_profile(roots=(a_root(),)))


def test_without_a_compiler_there_is_no_region() -> None:
    with pytest.raises(Refused, match="no C\\+\\+ compiler"):
        CompileRegion().choices(a_profile(a_machine(has_compiler=False), roots=(a_root(repeated_blocks=2),)))


def test_what_the_user_writes() -> None:
    snippets = {value: CompileRegion().change(value).snippet for value in CompileRegion().values()}
    assert "block.compile()" in snippets["blocks"]
    assert "loss_function(model(inputs), target)" in snippets["model+loss"]
    assert "lr=torch.tensor(lr)" in snippets["optimizer"] and "optimizer.step()" in snippets["optimizer"]
