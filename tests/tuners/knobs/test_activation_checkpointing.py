import copy
import io
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from builders import a_profile, a_root, a_run
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.activation_checkpointing import ActivationCheckpointing

INPUTS = torch.linspace(-1, 1, 64).reshape(2, 2, 4, 4)
VALUES = ["blocks", "every-other", "selective"]


class Block(nn.Module):
    """Convolution, batch norm, dropout, a residual: all that a second forward could spoil."""

    def __init__(self, momentum: float | None = 0.1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2, momentum=momentum)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.calls = 0

    def forward(self, inputs: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        output: torch.Tensor = inputs + scale * self.drop(self.act(self.norm(self.convolution(inputs))))
        return output


class Net(nn.Module):
    def __init__(self, kind: Callable[[], nn.Module] = Block, count: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([kind() for _ in range(count)])
        self.head = nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            inputs = block(inputs, scale=0.5)
        output: torch.Tensor = self.head(inputs)
        return output


def a_run_with(value: str) -> Run:
    run = a_run(activation_checkpointing=ActivationCheckpointing())
    run.configure({"activation_checkpointing": value})
    return run


def trained(model: nn.Module, steps: int = 3) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses, gradients of the last step, parameters and statistics."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(INPUTS).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    losses.append(float(torch.rand(1)))  # where the random numbers stand
    gradients = {f"grad {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return losses, {**gradients, **model.state_dict()}


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def block_calls(model: nn.Module) -> list[int]:
    return [module.calls for module in model.modules() if isinstance(module, Block)]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("momentum", [0.1, None])
def test_what_is_learnt_is_the_same_to_the_bit(value: str, momentum: float | None) -> None:
    bare, model = Net(lambda: Block(momentum)), Net(lambda: Block(momentum))
    a_run_with(value).model(model)
    (losses, state), (ours, our_state) = trained(bare), trained(model)
    assert ours == losses
    assert equal(our_state, state)
    assert block_calls(bare) == [3] * 4


@pytest.mark.parametrize(
    ("value", "calls"), [("blocks", [2, 2, 2, 2]), ("every-other", [2, 1, 2, 1]), ("selective", [2, 2, 2, 2])]
)
def test_blocks_are_computed_twice_where_they_keep_nothing(value: str, calls: list[int]) -> None:
    model, run = Net(), a_run_with(value)
    run.model(model)
    trained(model, steps=1)
    assert block_calls(model) == calls


def kept_bytes(value: str) -> int:
    """Bytes that the forward keeps for backward, in tensors that are no parameters."""
    model = Net()
    if value != "none":
        a_run_with(value).model(model)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    inputs = INPUTS.repeat(8, 1, 1, 1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(inputs)
    assert output.requires_grad
    return sum(kept.values())


def test_less_is_kept_the_more_is_recomputed() -> None:
    assert kept_bytes("blocks") < kept_bytes("every-other") < kept_bytes("none")


def test_selective_keeps_the_results_of_convolutions() -> None:
    class Convolutions(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it so
            self.count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.count += func is torch.ops.aten.convolution.default
            return func(*args, **(kwargs or {}))

    counts = {}
    for value in ("blocks", "selective"):
        model = Net()
        a_run_with(value).model(model)
        with Convolutions() as mode:
            model(INPUTS).sum().backward()
        counts[value] = mode.count
    assert counts == {"blocks": 8, "selective": 4}


def test_a_graph_can_be_walked_twice() -> None:
    model = Net()
    a_run_with("blocks").model(model)
    loss = model(INPUTS).sum()
    loss.backward(retain_graph=True)
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    loss.backward()
    assert equal(dict(model.named_buffers()), before)
    assert all(int(count) == 1 for name, count in before.items() if name.endswith("tracked"))


def test_evaluation_recomputes_nothing() -> None:
    model = Net()
    a_run_with("blocks").model(model)
    model.eval()(INPUTS).sum().backward()
    assert block_calls(model) == [1] * 4


def test_copies_and_pickles_are_sound() -> None:
    model = Net()
    a_run_with("blocks").model(model)
    twin = copy.deepcopy(model)
    buffer = io.BytesIO()
    torch.save(SimpleNamespace(model=model), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False).model
    for other in (twin, loaded):
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        assert torch.equal(other.blocks[0].eval()(INPUTS), INPUTS)
    assert not torch.equal(model.blocks[0].eval()(INPUTS), INPUTS)


class Cache:
    """Stands for the class of that name in transformers."""


class WithCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.seen: list[tuple[object, bool]] = []

    def forward(
        self, inputs: torch.Tensor, cache: object = None, *, past: object = None, use_cache: bool = False
    ) -> torch.Tensor:
        self.seen.append((cache or past, use_cache))
        output: torch.Tensor = self.layer(inputs)
        return output


def test_caches_of_keys_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Cache):
        pass

    monkeypatch.setitem(sys.modules, "transformers.cache_utils", SimpleNamespace(Cache=Cache))
    model = nn.Sequential(WithCache(), WithCache())
    a_run_with("blocks").model(model)
    model[0](INPUTS, Mine(), use_cache=True)
    model[1](INPUTS, past=Cache())
    assert model[0].seen == model[1].seen == [(None, False)]


def an_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_blocks_that_are_called_count_as_applied() -> None:
    model, run = Net(), a_run_with("blocks")
    run.model(model)
    model(INPUTS)
    run.optimizer(an_optimizer(model))
    assert (run.applied, run.refused) == ({"activation_checkpointing"}, {})


def test_a_root_without_blocks_beside_one_with_blocks_is_fine() -> None:
    model, run = Net(), a_run_with("blocks")
    run.model(nn.Linear(4, 4))
    run.model(model)
    model(INPUTS)
    run.optimizer(an_optimizer(model))
    assert run.refused == {}


def test_blocks_that_are_never_called_as_modules_are_refused() -> None:
    model, run = Net(), a_run_with("blocks")
    run.model(model)
    run.optimizer(an_optimizer(model))
    assert "not called as modules" in run.refused["activation_checkpointing"]


def test_a_model_without_blocks_is_refused() -> None:
    model, run = nn.Linear(4, 4), a_run_with("blocks")
    run.model(model)
    run.optimizer(an_optimizer(model))
    assert "no two blocks" in run.refused["activation_checkpointing"]


def test_a_forward_that_was_replaced_already_is_left_alone() -> None:
    model, run = Net(), a_run_with("blocks")

    def own(inputs: torch.Tensor, scale: float) -> torch.Tensor:
        return inputs

    model.blocks[3].forward = own
    run.model(model)
    assert "replaced already" in run.refused["activation_checkpointing"]
    assert model.blocks[3].forward is own
    assert "forward" not in vars(model.blocks[0])


class Plain(Block):
    """Nothing that a compiler could not trace, and no random numbers, which it draws by itself."""

    def forward(self, inputs: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        output: torch.Tensor = inputs + scale * self.act(self.norm(self.convolution(inputs)))
        return output


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    ["blocks", *(pytest.param(value, marks=pytest.mark.long) for value in ("every-other", "selective"))],
)
def test_compiled_code_recomputes_too(value: str) -> None:
    bare, model = Net(Plain, 2), Net(Plain, 2)
    a_run_with(value).model(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    compiled(INPUTS).sum().backward()
    bare(INPUTS).sum().backward()
    for ours, own in zip(model.parameters(), bare.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, own.grad)
    torch.testing.assert_close(dict(model.named_buffers()), dict(bare.named_buffers()))


def with_blocks(**facts: Any) -> Profile:
    return a_profile(roots=(a_root(repeated_blocks=4, **facts),))


def test_repeated_blocks_are_offered() -> None:
    assert ActivationCheckpointing().choices(with_blocks()) == ["none", *VALUES]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(roots=(a_root(),)), "no two blocks"),
        (with_blocks(checkpointed=True), "recomputes activations itself"),
        (with_blocks(scripted=True), "scripted"),
        (with_blocks(parallel="DataParallel"), "copies the blocks"),
    ],
)
def test_where_it_cannot_apply_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        ActivationCheckpointing().choices(profile)


@pytest.mark.parametrize("value", VALUES)
def test_what_the_user_writes_is_not_reentrant(value: str) -> None:
    snippet = ActivationCheckpointing().change(value).snippet
    assert "use_reentrant=False" in snippet
    compile(snippet, "snippet", "exec")
