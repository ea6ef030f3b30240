import inspect
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile, a_rich_profile, a_root, a_run
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused, Value
from advisor.tuners.knobs.execution import Execution
from advisor.tuners.mechanisms.compiling import mode_of


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.BatchNorm1d(4)
        self.layer = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(self.drop(self.norm(inputs)))
        return result


class Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(inputs) if inputs.sum() > 0 else inputs
        return result


class Flexible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor, **options: Any) -> torch.Tensor:
        result: torch.Tensor = self.layer(inputs)
        return result


INPUTS = torch.linspace(-1, 1, 32).reshape(8, 4)


def a_run_with(value: str) -> Run:
    run = a_run(execution=Execution())
    run.configure({"execution": value})
    return run


@pytest.fixture
def wrapped_small() -> Iterator[type[Small]]:
    """``Small`` while its class has a foreign forward, as an observed program has."""
    own = Small.forward

    def forward(self: Small, *inputs: Any, **named: Any) -> Any:
        return wrapper_only_name(own(self, *inputs, **named))  # type: ignore[name-defined]  # noqa: F821

    Small.forward = forward  # type: ignore[method-assign]  # what the fixture is for
    yield Small
    Small.forward = own  # type: ignore[method-assign]  # put back


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_torchscript_computes_the_same_on_the_same_parameters(value: str) -> None:
    root, twin, run = Small(), Small(), a_run_with(value)
    function = run.call(root.forward, root)
    for _ in range(3):
        torch.manual_seed(1)
        ours = run.output(root, function(INPUTS))
        torch.manual_seed(1)
        own = twin(INPUTS)
        torch.testing.assert_close(ours, own)
        ours.sum().backward()
        own.sum().backward()
    assert root.layer.weight.grad is not None
    torch.testing.assert_close(root.layer.weight.grad, twin.layer.weight.grad)
    torch.testing.assert_close(root.norm.running_mean, twin.norm.running_mean)
    assert root.norm.num_batches_tracked == 3
    assert (run.unanswered(), run.refused) == ([], {})


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_torchscript_really_runs(value: str) -> None:
    root = Small()
    function = a_run_with(value).call(root.forward, root)
    function(INPUTS)
    calls: list[int] = []
    root.layer.register_forward_hook(lambda *_: calls.append(1))
    function(INPUTS)
    assert calls == []


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_evaluation_follows_the_train_flag(value: str) -> None:
    root = Small()
    function = a_run_with(value).call(root.forward, root)
    function(INPUTS)
    root.eval()
    assert torch.equal(function(INPUTS), function(INPUTS))
    root.train()
    assert not torch.equal(function(INPUTS), function(INPUTS))


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_torchscript_reads_the_programs_forward_and_not_the_wrapper(
    value: str, wrapped_small: type[Small]
) -> None:
    root = wrapped_small()
    own = inspect.getclosurevars(wrapped_small.forward).nonlocals["own"]
    wrapper = wrapped_small.forward
    run = a_run_with(value)
    function = run.call(own.__get__(root), root)
    assert run.output(root, function(INPUTS)).shape == (8, 2)
    assert run.refused == {}
    assert wrapped_small.forward is wrapper


def test_a_root_that_is_evaluated_first_is_scripted_for_training() -> None:
    root = Small().eval()
    function = a_run_with("jit_script").call(root.forward, root)
    root.train()
    assert not torch.equal(function(INPUTS), function(INPUTS))


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_no_deprecation_is_shown_for_our_own_call(value: str) -> None:
    root = Small()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a_run_with(value).call(root.forward, root)(INPUTS)


def test_a_trace_that_would_freeze_a_decision_is_refused_and_the_program_goes_on() -> None:
    root, run = Deciding(), a_run_with("jit_trace")
    function = run.call(root.forward, root)
    output = run.output(root, function(-INPUTS.abs()))
    assert torch.equal(output, -INPUTS.abs())
    assert "Python boolean" in run.refused["execution"]
    assert run.applied == set()


def test_other_shapes_get_a_trace_of_their_own() -> None:
    root, run = Small(), a_run_with("jit_trace")
    function = run.call(root.forward, root)
    assert [run.output(root, function(INPUTS[:count])).shape[0] for count in (8, 5, 8)] == [8, 5, 8]
    assert run.refused == {}


def test_ever_new_shapes_are_refused() -> None:
    root, run = Small(), a_run_with("jit_trace")
    function = run.call(root.forward, root)
    for count in range(2, 8):
        run.output(root, function(INPUTS[:count]))
    assert run.refused == {"execution": "torch.jit.trace: more than 4 shapes of input"}


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_torchscript_follows_autocast(value: str) -> None:
    root, run = Small(), a_run_with(value)
    function = run.call(root.forward, root)
    kinds = [function(INPUTS).dtype]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kinds.append(function(INPUTS).dtype)
    kinds.append(function(INPUTS).dtype)
    assert kinds == [torch.float32, torch.bfloat16, torch.float32]


def test_a_failed_trace_speaks_for_its_own_root_alone() -> None:
    run = a_run_with("jit_trace")
    broken, sound = Deciding(), Small()
    run.call(broken.forward, broken)(INPUTS)
    run.output(sound, run.call(sound.forward, sound)(INPUTS))
    assert run.refused == {}


def test_keyword_arguments_are_no_business_of_a_trace() -> None:
    root, run = Small(), a_run_with("jit_trace")
    run.output(root, run.call(root.forward, root)(inputs=INPUTS))
    assert "keyword arguments" in run.refused["execution"]


def test_what_torchscript_cannot_compile_is_refused_with_its_first_line() -> None:
    root, run = Flexible(), a_run_with("jit_script")
    assert run.call(root.forward, root) == root.forward
    assert run.refused["execution"].startswith("torch.jit.script: Compiled functions can't take variable")
    assert "\n" not in run.refused["execution"]


@pytest.mark.parametrize("value", ["jit_script", "jit_trace"])
def test_forward_hooks_are_refused(value: str) -> None:
    root, run = Small(), a_run_with(value)
    root.layer.register_forward_hook(lambda *_: None)
    run.output(root, run.call(root.forward, root)(INPUTS))
    assert "forward hooks" in run.refused["execution"]


def test_compile_takes_the_forward_itself_and_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    root, run = nn.Linear(4, 4), a_run_with("compile")
    function = run.call(root.forward, root)
    before = counters["frames"]["ok"]
    output = function(INPUTS)
    assert counters["frames"]["ok"] == before + 1
    output.sum().backward()
    torch.testing.assert_close(output, root(INPUTS))
    assert run.unanswered() == []


@pytest.mark.parametrize(
    ("value", "snippet"),
    [
        ("compile", "model = torch.compile(model)"),
        ("compile-reduce-overhead", 'model = torch.compile(model, mode="reduce-overhead")'),
        ("compile-max-autotune", 'model = torch.compile(model, mode="max-autotune")'),
    ],
)
def test_the_mode_of_torch_is_what_follows_compile(value: str, snippet: str) -> None:
    assert Execution().change(value).snippet == snippet


def test_a_model_that_the_program_compiled_is_left_alone() -> None:
    root, run = nn.Linear(4, 4), a_run_with("compile")
    root.compile()
    assert run.call(root.forward, root) == root.forward
    assert "already called" in run.refused["execution"]


def test_a_workload_on_a_cpu_is_offered_compile_and_jit() -> None:
    choices = Execution().choices(a_rich_profile())
    assert choices == ["eager", "compile", "jit_script", "jit_trace", "jit_hybrid"]


def test_a_script_is_not_offered_jit_and_told_why() -> None:
    script = a_rich_profile(target_kind="script")
    assert Execution().choices(script) == ["eager", "compile"]
    for value in ("jit_trace", "jit_hybrid"):
        with pytest.raises(Refused, match="freezes the train flag"):
            Execution().check(value, script)


def test_cuda_is_offered_the_modes_made_for_it() -> None:
    assert Execution().choices(a_gpu_profile(target_kind="script")) == [
        "eager", "compile", "compile-reduce-overhead", "compile-max-autotune-no-cudagraphs",
        "compile-max-autotune",
    ]  # fmt: skip


def test_those_modes_are_legal_on_a_cpu_when_named() -> None:
    Execution().check("compile-max-autotune", a_rich_profile())
    assert Execution().parse("compile-max-autotune") == "compile-max-autotune"


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(a_machine(has_compiler=False), target_kind="script"), "no C\\+\\+ compiler"),
        (a_profile(run=RunFacts(own_compile=True)), "already called by the program"),
        (a_profile(roots=(a_root(already_compiled=True),)), "already called by the program"),
        (a_profile(roots=(a_root(scripted=True),)), "already scripted"),
    ],
)
def test_where_nothing_can_be_tried_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Execution().choices(profile)


def test_what_other_knobs_say_about_compiling_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def compile(function: Any, **how: Any) -> Any:
        assert "backend" not in how  # the default of torch
        asked.append((function.__self__, how["dynamic"]))
        return function

    monkeypatch.setattr(torch, "compile", compile)
    root = nn.Sequential(nn.Sequential(Small()), nn.Sequential(Small()))
    settings: list[dict[str, Value]] = [{}, {"dynamic": "off"}, {"compile_region": "blocks"}]
    for present in settings:
        run = a_run(present, execution=Execution())
        run.configure({"execution": "compile"})
        run.call(root.forward, root)
    assert asked == [(root, None), (root, False), (root[0], None), (root[1], None)]


def test_weights_are_frozen_where_a_model_only_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    profile = a_rich_profile()
    assert profile.run is not None
    serving = replace(profile, run=replace(profile.run, clock="request"))
    assert "compile-freezing" in Execution().choices(serving)
    with pytest.raises(Refused, match="a training changes the weights"):
        Execution().check("compile-freezing", profile)
    modes: list[object] = []

    def compiled(function: Any, mode: object, dynamic: object) -> Any:
        modes.append(mode)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    root = Small().eval()
    with config.patch(freezing=False):
        assert Execution().call(root.forward, root, "compile-freezing") == root.forward
        assert config.freezing and modes == [None]
    assert mode_of("compile-max-autotune") == "max-autotune" and mode_of("compile") is None


@pytest.mark.long
def test_a_compiled_model_with_frozen_weights_answers_the_same() -> None:
    from torch._inductor import config

    root = Small().eval()
    with config.patch(freezing=False), torch.inference_mode():
        function = Execution().call(root.forward, root, "compile-freezing")
        torch.testing.assert_close(function(INPUTS), root(INPUTS))
