"""What ``result.apply`` does to live objects, and what it leaves to be written by hand."""

import sys
from typing import Any

import pytest
import torch
from result_builder import (
    HOSTILE,
    a_finding,
    a_hostile_result,
    a_keep,
    a_rate,
    a_recommendation,
    a_result,
    an_adopted,
)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from advisor.notebook.live_objects import Applied
from advisor.notebook.tune import Result
from advisor.result.document import Value


def recommending(**changes: Value) -> Result:
    """A result that recommends these changes."""
    adopted = [
        an_adopted(knob=knob, before="off", to=value, semantics="exact", snippet=f"# {knob}")
        for knob, value in changes.items()
    ]
    return Result(a_result(recommendation=a_recommendation(changes=adopted, config=changes)))


def reasons(applied: Applied) -> dict[str, str]:
    return {left.knob: left.reason for left in applied.left}


def test_arguments_of_a_loader_come_back_changed_and_make_a_loader() -> None:
    given = {"batch_size": 8, "dataset": TensorDataset(torch.zeros(64, 2))}
    result = recommending(prefetch_factor=4, persistent_workers="on", num_workers=1, batch_size=16)
    applied = result.apply(loader_kwargs=given)
    assert applied.loader_kwargs is not None and given["batch_size"] == 8
    loader: Any = DataLoader(**applied.loader_kwargs)
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (1, 4, True)
    assert loader.batch_size == 16 and applied.left == []
    assert applied.done.keys() == {"prefetch_factor", "persistent_workers", "num_workers", "batch_size"}


def test_an_optimizer_is_edited_in_place_and_goes_on_training() -> None:
    model = nn.Linear(4, 2)
    adam = torch.optim.AdamW(model.parameters())
    model(torch.ones(3, 4)).sum().backward()
    adam.step()
    applied = recommending(optimizer_implementation="fused").apply(optimizer=adam)
    assert applied.optimizer is adam and adam.param_groups[0]["fused"] is True
    adam.step()
    assert "Applied: optimizer_implementation = fused" in repr(applied)


def test_a_model_keeps_channels_last_also_for_its_inputs() -> None:
    model = nn.Conv2d(3, 8, 3)
    seen: list[bool] = []
    recommending(channels_last="on").apply(model=model)
    model.register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
    )
    output = model(torch.randn(2, 3, 8, 8))
    assert model.weight.is_contiguous(memory_format=torch.channels_last)
    assert seen == [True] and output.is_contiguous(memory_format=torch.channels_last)


def test_a_model_is_compiled_in_place_with_what_other_knobs_say() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    names = list(model.state_dict())
    applied = recommending(execution="compile", dynamic="on").apply(model=model)
    assert applied.model is model and model._compiled_call_impl is not None
    assert applied.done == {"execution": "compile", "dynamic": "on"} and list(model.state_dict()) == names
    again = recommending(execution="compile").apply(model=model)
    assert reasons(again) == {"execution": "torch.compile was called on the model already"}


def test_only_the_repeated_blocks_are_compiled_where_that_is_the_region() -> None:
    block = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)]
    model = nn.Sequential(*block)
    recommending(execution="compile", compile_region="blocks").apply(model=model)
    assert model._compiled_call_impl is None
    assert all(each._compiled_call_impl is not None for each in block)


def test_autocast_is_a_context_for_each_step() -> None:
    model = nn.Linear(4, 2)
    applied = recommending(amp="bf16").apply(model=model)
    for _ in range(2):
        with applied.forward():
            assert model(torch.ones(1, 4)).dtype is torch.bfloat16
        assert model(torch.ones(1, 4)).dtype is torch.float32
    assert "with applied.forward()" in repr(applied)


def test_without_a_context_forward_does_nothing() -> None:
    with Result(a_keep()).apply().forward():
        assert not torch.is_autocast_enabled("cpu")


def test_a_setting_of_the_process_is_set() -> None:
    before = torch.get_num_threads()
    try:
        recommending(num_threads=before + 1).apply()
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"amp": "fp16"}, "fp16 needs a GradScaler"),
        ({"execution": "jit_trace"}, "another object"),
        ({"execution": "compile", "compile_region": "optimizer"}, "a function of the loop"),
        ({"malloc": "jemalloc"}, "jemalloc was not loaded"),
        ({"set_to_none": "on"}, "belongs into the loop"),
        ({"lr_scaling": "sqrt"}, "belongs into the loop"),
        ({"strategy": "ddp"}, "belongs into the loop"),
        ({"knob_to_come": 1}, "no such knob"),
        ({"in_memory_cache": "on"}, "have no dataset"),
    ],
)
def test_what_cannot_be_applied_is_told_with_its_reason_and_what_to_write(
    changes: dict[str, Value], told: str
) -> None:
    model = nn.Linear(4, 2)
    forward = model.forward
    applied = recommending(**changes).apply(
        model, {"batch_size": 4}, torch.optim.SGD(model.parameters(), lr=1)
    )
    knob = next(iter(changes))
    assert told in reasons(applied)[knob] and f"# {knob}" in repr(applied)
    assert model.forward == forward and model._compiled_call_impl is None


def test_objects_that_were_not_given_are_named() -> None:
    changes: dict[str, Value] = {"channels_last": "on", "num_workers": 2, "optimizer_implementation": "fused"}
    assert reasons(recommending(**changes).apply()) == {
        "channels_last": "no model was given",
        "num_workers": "no loader_kwargs was given",
        "optimizer_implementation": "no optimizer was given",
    }


def test_trials_are_a_frame_with_pandas_and_dicts_with_a_hint_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(a_result())
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = result.trials()
    assert rows[0]["number"] == 0 and rows[2]["config"]["num_workers"] == 2
    assert "pip install pandas" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pandas", Frames())
    assert result.trials() == ("frame", len(rows))


class Frames:
    """The one function of pandas that is used."""

    def json_normalize(self, rows: list[Any]) -> Any:
        return "frame", len(rows)


def test_two_results_are_compared_and_a_foreign_one_is_refused() -> None:
    faster = a_result()
    faster.baseline.step_ms = faster.baseline.step_ms.model_copy(
        update={"estimate": 20.0, "low": 19.0, "high": 21.0}
    )
    faster.baseline.throughput = a_rate(64_000 / 20)
    faster.created = "2026-11-21T11:12:00+00:00"
    found = Result(a_result()).compare(Result(faster))
    assert "as long in B as in A" in repr(found) and "A: this result" in repr(found)
    assert found.data.step_ratio is not None and found._repr_markdown_().startswith(
        "<!-- advisor compare -->"
    )
    faster.target.digest = "sha256:other"
    with pytest.raises(ValueError, match=r"not comparable: train\.py"):
        Result(a_result()).compare(Result(faster))


def test_hostile_names_become_no_html_and_no_control_characters() -> None:
    result = Result(a_hostile_result())
    bundle = result._repr_mimebundle_()
    html = bundle["text/html"]
    for forbidden in ("<script", "<img", "<iframe", "onmouseover='", 'javascript:alert(1)"'):
        assert forbidden not in html
    assert len(html) < 200_000 and html.count("<style>") == 1 and "http://" not in html.split("</style>")[0]
    hostile = recommending(**{name: "x" for name in HOSTILE if name})
    shown = repr(hostile.apply())
    assert not set(shown) & {"\x1b", "\x9b", "\u202e", "\x00", "\x07"}


def test_styles_of_a_fragment_reach_nothing_outside_of_it() -> None:
    html = Result(a_result(findings=[a_finding()]))._repr_mimebundle_()["text/html"]
    style = html.split("<style>")[1].split("</style>")[0]
    rules = [rule.rsplit("{", 1)[0].strip() for rule in style.replace("@media", "\n@media").split("}")]
    selectors = [part.split("{")[-1].strip() for rule in rules for part in rule.split(",") if part.strip()]
    assert selectors and all(".advisor-result" in each or each.startswith("@") for each in selectors)
    assert "Findings" in html and "<svg" in html


def test_a_face_that_fails_leaves_the_text_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(result: Any) -> str:
        raise KeyError("template")

    monkeypatch.setattr("advisor.report.files.render_fragment", failing)
    bundle = Result(a_keep())._repr_mimebundle_()
    assert "Keep what you have" in bundle["text/plain"] and "text/html" not in bundle
    assert "(text/html was not made: KeyError: 'template')" in bundle["text/plain"]
    assert bundle["text/markdown"]


def test_html_too_large_for_a_notebook_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.report.files.render_fragment", lambda result: "x" * 300_000)
    bundle = Result(a_keep())._repr_mimebundle_()
    assert "text/html" not in bundle and "300 KB are too large" in bundle["text/plain"]
