"""A trained model as TorchScript, and its file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_rich_profile
from torch import nn

from advisor.profiles.events import Request
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.execution import Execution
from advisor.tuners.mechanisms.forms.form import Source
from advisor.tuners.mechanisms.forms.torchscript_form import torchscript_form

ROW = torch.linspace(-1, 1, 4).reshape(1, 4)


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, row: torch.Tensor) -> Any:
        return self.body(row) if row.sum() > 0 else row


def a_source(model: nn.Module, folder: Path, **kwargs: Any) -> Source:
    return Source(model, (() if kwargs else (ROW.clone(),), kwargs), folder)


@pytest.mark.parametrize("how", ["jit_script", "jit_trace", "jit_freeze"])
def test_it_answers_the_same_and_so_does_its_file(how: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5)).eval()
    with torch.inference_mode():
        form = torchscript_form(a_source(model, tmp_path), how, model.forward)
        assert form.file is not None and form.kind == "torchscript"
        loaded = torch.jit.load(str(form.file))
        for rows in (ROW, torch.cat([ROW, 2 * ROW])):
            torch.testing.assert_close(form.call(rows), model(rows))
            torch.testing.assert_close(loaded(rows), model(rows))
    assert (how == "jit_freeze") == (not list(getattr(form.call, "parameters")()))  # noqa: B009  # a module


@pytest.mark.parametrize(
    ("model", "kwargs", "reason"),
    [
        (nn.Linear(4, 4), {}, "training mode"),
        (nn.Linear(4, 4).eval(), {"input": ROW}, "named arguments"),
        (Decides().eval(), {}, "decide by values"),
        (nn.Linear(5, 4).eval(), {}, "cannot be traced"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_the_reason(
    model: nn.Module, kwargs: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=reason):
        torchscript_form(a_source(model, tmp_path, **kwargs), "jit_freeze", model.forward)


def test_hooks_and_what_cannot_be_scripted_are_refused(tmp_path: Path) -> None:
    hooked = nn.Linear(4, 4).eval()
    hooked.register_forward_hook(lambda module, inputs, output: None)
    with pytest.raises(Refused, match="hooks"):
        torchscript_form(a_source(hooked, tmp_path), "jit_trace", hooked.forward)
    scripted = torchscript_form(a_source(Decides().eval(), tmp_path), "jit_script", Decides.forward)
    torch.testing.assert_close(scripted.call(-ROW - 3), -ROW - 3)  # it still decides


def test_the_knob_leaves_the_file_and_what_loads_it(tmp_path: Path) -> None:
    model = nn.Linear(4, 4).eval()
    answer = Execution().serve(model.forward, model, Request((ROW,), {}, tmp_path), "jit_trace")
    torch.testing.assert_close(answer(ROW), model(ROW))
    assert {each.name for each in tmp_path.iterdir()} == {"model-trace.pt", "artefact.json"}
    assert Execution().call(model.forward, model, "jit_trace") == model.forward  # which is for training


def test_it_is_offered_where_a_model_answers_and_not_where_it_trains() -> None:
    profile = a_rich_profile()
    assert profile.run is not None
    serving = replace(profile, run=replace(profile.run, clock="request"))
    assert "jit_freeze" in Execution().choices(serving) and "jit_freeze" not in Execution().choices(profile)
    assert "jit_hybrid" not in Execution().choices(serving)
    with pytest.raises(Refused, match="a training changes the weights"):
        Execution().check("jit_freeze", profile)
