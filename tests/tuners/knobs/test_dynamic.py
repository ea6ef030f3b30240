from functools import partial
from typing import Any

import pytest
import torch
from builders import a_loader, a_machine, a_profile, a_rich_profile, a_root, a_run
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Change, Refused
from advisor.tuners.knobs.dynamic import Dynamic
from advisor.tuners.knobs.execution import Execution


def a_run_with(execution: str, dynamic: str) -> Run:
    run = a_run(execution=Execution(), dynamic=Dynamic())
    run.configure({"execution": execution, "dynamic": dynamic})
    return run


@pytest.mark.parametrize(("value", "argument"), [("auto", None), ("on", True), ("off", False)])
def test_torch_is_asked_for_it(monkeypatch: pytest.MonkeyPatch, value: str, argument: bool | None) -> None:
    asked: list[Any] = []

    def compile(function: Any, **how: Any) -> Any:
        asked.append(how)
        return function

    monkeypatch.setattr(torch, "compile", compile)
    root, run = nn.Linear(2, 2), a_run_with("compile", value)
    run.call(root.forward, root)
    assert asked == [{"mode": None, "dynamic": argument}]
    assert run.unanswered() == []
    assert run.refused == {}


@pytest.mark.parametrize("execution", ["eager", "jit_trace"])
def test_without_compiled_code_it_is_refused(execution: str) -> None:
    root, run = nn.Linear(2, 2), a_run_with(execution, "on")
    run.call(root.forward, root)
    assert run.refused == {"dynamic": "dynamic needs an execution that compiles"}


@pytest.mark.slow
@pytest.mark.parametrize(("value", "graphs"), [("on", 1), ("off", 3)])
def test_open_shapes_are_compiled_once(monkeypatch: pytest.MonkeyPatch, value: str, graphs: int) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    root, run = nn.Linear(2, 2), a_run_with("compile", value)
    function = run.call(root.forward, root)
    counters.clear()
    for count in (5, 6, 7):  # other sizes than the layer's: equal ones count as one size
        function(torch.ones(count, 2))
    assert counters["stats"]["unique_graphs"] == graphs


def test_varying_shapes_are_what_it_is_for() -> None:
    assert Dynamic().choices(a_profile(loader=a_loader(shapes_vary=True))) == ["auto", "on", "off"]
    with pytest.raises(Refused, match="one shape"):
        Dynamic().choices(a_rich_profile())
    Dynamic().check("on", a_rich_profile())


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(a_machine(has_compiler=False)), "no C\\+\\+ compiler"),
        (a_profile(run=RunFacts(own_compile=True)), "already called by the program"),
        (a_profile(roots=(a_root(scripted=True),)), "already scripted"),
    ],
)
def test_where_nothing_can_be_compiled_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Dynamic().choices(profile)


def test_what_the_user_writes() -> None:
    assert Dynamic().change("on") == Change("model = torch.compile(model, dynamic=True)")
