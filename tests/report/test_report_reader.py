"""What a first-time reader asked of a report: by which change, how to apply and undo, what it costs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applied_builder import PROGRAM, a_change, a_result_for
from html_tree import elements, parse, text_of
from result_builder import (
    NOW,
    a_finding,
    a_keep,
    a_ratio,
    a_recommendation,
    a_result,
    a_trial,
    an_adopted,
)  # fmt: skip

from advisor.patching.patch import added_lines
from advisor.report import files
from advisor.report.next_step import commands
from advisor.report.pages.findings_page import groups
from advisor.report.pages.page import tiles
from advisor.report.progress import progress_here
from advisor.report.sarif import render_sarif
from advisor.result import outlook, wording
from advisor.result.conditions import ended
from advisor.result.document import IN_PYTHON, Finding, Interval, ResultData, Untried
from advisor.stages.trials import TrialLog

FUSED = "Update all parameters in one operator: pass `fused=True` to the optimizer."
COMPILED: dict[str, Any] = {**NOW, "execution": "compile"}


def a_finding_of_launches(**fields: Any) -> Finding:
    return a_finding(
        "launch_bound", kind="headroom", advice=FUSED, measured=Interval(estimate=2.09, low=2.01, high=2.17),
        knobs=["execution", "optimizer_implementation", "batch_size"], outcome="confirmed",
        location={"file": "train.py", "line": 3}, **fields,
    )  # fmt: skip


def compiled(**fields: Any) -> ResultData:
    """A result that recommends to compile, and nothing else."""
    change = an_adopted(
        knob="execution", before="eager", to="compile", semantics="rounding", numerics="identical",
        snippet="model = torch.compile(model)",
    )  # fmt: skip
    found = {"changes": [change], "config": COMPILED, "numerics": "identical"}
    return a_result(recommendation=a_recommendation(**(found | fields.pop("found", {}))), **fields)


FACES: dict[str, Callable[[ResultData], str]] = {
    "html": lambda result: text_of(parse(files.render_html(result))),
    "markdown": lambda result: files.render_markdown(result).replace("&#95;", "_"),
    "fragment": files.render_fragment,
    "sarif": render_sarif,
    "text": lambda result: files.render_text(result, 200),
}


@pytest.mark.parametrize("face", ["html", "markdown", "fragment", "sarif"])
def test_every_face_says_by_which_change_a_finding_was_confirmed(face: str) -> None:
    said = FACES[face](compiled(findings=[a_finding_of_launches()]))
    assert "onfirmed by execution=compile: 2.09x (2.01 to 2.17); not tried: optimizer_implementation" in said


def test_what_was_decided_before_advisor_said_by_which_change_is_told_too() -> None:
    old = "part of the recommendation; its own share was not measured"
    said = FACES["html"](compiled(findings=[a_finding_of_launches(why=old)]))
    assert "confirmed by execution=compile: 2.09x" in said and old not in said


@pytest.mark.parametrize("face", ["html", "markdown", "fragment"])
def test_what_knob_left_out_comes_with_the_command_that_tries_it(face: str) -> None:
    finding = a_finding(
        knobs=["num_workers"], why="the search did not come to it", advice="Use `num_workers=2`."
    )
    command = ["tune", "train.py", "--knob", "execution=compile", "--", "--epochs", "1"]
    said = FACES[face](compiled(findings=[finding], command=command))
    assert "not tested: --knob left num_workers out; to try it: " in said
    assert "advisor tune train.py --knob num_workers -- --epochs 1" in said
    assert "--knob left" not in FACES[face](compiled(findings=[finding]))


def test_the_first_screen_shows_how_to_look_apply_undo_and_reproduce() -> None:
    page = parse(files.render_html(compiled()))
    texts = {
        node.get("data-copy"): node.text or "" for node in elements(page, "pre") if node.get("data-copy")
    }
    assert texts["the command that shows the changes"] == "advisor apply advisor-report"
    assert texts["the command that applies"] == "advisor apply advisor-report --write"
    assert texts["the command that undoes"] == "advisor apply advisor-report --revert"
    assert texts["the command that reproduces"].startswith("advisor tune train.py")


def test_commands_that_cannot_write_are_not_offered() -> None:
    assert [each.name for each in commands(compiled(), editable=False)] == ["Look", "Reproduce"]
    assert [each.name for each in commands(a_keep(), editable=True)] == ["Reproduce"]
    objects = compiled(target=a_result().target.model_copy(update={"kind": "objects"}))
    assert [each.text[:12] for each in commands(objects, editable=True)] == ["result.apply", "advisor tune"]


def test_the_first_compilation_of_the_setting_counts_and_not_one_that_found_a_filled_cache() -> None:
    trials = [
        a_trial(1, a_ratio(1.4, 1.3, 1.5), config=COMPILED, compile_s=28.3),
        a_trial(2, a_ratio(1.4, 1.3, 1.5), config=COMPILED | {"dynamic": "on"}, compile_s=90.0),
        a_trial(3, a_ratio(1.2, 1.1, 1.3), config=COMPILED | {"amp": "bf16"}, compile_s=2.7),
    ]
    costs = {"compile_cold_s": 2.7, "compile_warm_s": 2.1, "break_even_steps": 1815}
    assert outlook.pays_back(compiled(trials=trials, found=costs)) == (
        "28 s of compilation the first time, 2.1 s on a warm start, "
        "pays back after 19024 steps (1412 on a warm start)"
    )
    assert outlook.first_compile_s(NOW, trials) is None
    log = TrialLog(progress_here(quiet=True), float, 0.0, trials=trials)
    assert log.first_compile_s(COMPILED) == 28.3


@pytest.mark.parametrize("face", ["html", "markdown", "text"])
def test_an_edit_that_is_in_the_patch_stands_in_the_table_as_it_is_there(
    face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    changes = [a_change("execution", "eager", "compile"), a_change("gc_freeze", "off", "freeze")]
    one, two = (a_result_for(file, *changes[:count]) for count in (1, 2))
    for result in (one, two):
        said = FACES[face](result).partition("Fields")[0]
        assert "model.compile()" in said and "as in changes.patch" in said
        assert "model = torch.compile(model)" not in said
    assert "gc.freeze()" in FACES[face](two)
    file.write_text("print(1)\n")  # not what was measured: the patch holds no edit
    said = FACES[face](one)
    assert "model = torch.compile(model)" in said and "as in changes.patch" not in said


@pytest.mark.parametrize("face", ["html", "markdown", "text"])
@pytest.mark.parametrize(("batch", "warms_up"), [(32, True), (4, False)])
def test_how_a_raised_rate_is_approached_is_told_beside_the_patch(
    face: str, batch: int, warms_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    changes = [a_change("batch_size", 8, batch), a_change("lr_scaling", "none", "sqrt")]
    said = (
        FACES[face](a_result_for(file, *changes)).partition("Fields")[0].partition("changes.patch</summ")[0]
    )
    assert ("LinearLR(optimizer, 1 / 4**0.5," in said, "warmup.step()" in said) == (warms_up, warms_up)
    assert "the rest as in changes.patch" in said if warms_up else "the rest as" not in said
    assert "lr = lr * factor" not in said


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("losses of the first 20 steps differ by 3.4e-08 relative", "identical numbers up to rounding: "),
        ("losses of the first 20 steps differ by 0 relative", "identical numbers: "),
        ("", "identical numbers"),
    ],
)
def test_numbers_that_differ_at_all_are_identical_up_to_rounding(reason: str, words: str) -> None:
    result = compiled(found={"numerics_reason": reason})
    assert wording.numerics(result.recommendation) == f"{words}{reason}"
    row = elements(parse(files.render_html(result)), "tbody")[0]
    assert ("up to rounding" in text_of(row)) == ("up to" in words)


@pytest.mark.parametrize("face", ["html", "markdown", "fragment", "text"])
def test_every_face_that_counts_quads_says_what_one_is(face: str) -> None:
    told = "A quad is four timed blocks: unchanged, changed, changed, unchanged."
    assert FACES[face](compiled()).count(told) == 1
    uncounted = compiled(found={"speedup": a_ratio(2.0, 1.9, 2.1, 0, 0)})
    assert told not in FACES[face](uncounted)


def test_both_rows_of_a_tile_have_the_digits_of_the_finer_one() -> None:
    result = compiled(
        trials=[
            a_trial(
                5, a_ratio(1.24, 1.11, 1.39), config=COMPILED, stage="confirm",
                step_ms=Interval(estimate=6.31, low=5.60, high=6.60),
            )
        ]
    )  # fmt: skip
    now = result.baseline.model_copy(update={"step_ms": Interval(estimate=7.37, low=7.21, high=10.92)})
    (step,) = (t for t in tiles(result.model_copy(update={"baseline": now})) if t.name == "Time of a step")
    assert step.lines == [("now", "7.4 ms (7.2 to 10.9)"), ("changed", "6.3 ms (5.6 to 6.6)")]


def test_a_search_that_the_command_limited_says_what_it_was_limited_to() -> None:
    limited = a_result(
        command=["tune", "train.py", "--knob", "num_workers=0,2", "--knob=amp", "--", "--knob", "x"],
        not_tried=[],
    )
    assert ended(limited) == "nothing was left to try of what --knob allows (num_workers, amp)"
    assert ended(a_result()) == "nothing was left to try"


def test_what_the_command_named_and_was_not_tried_is_told_with_its_reason() -> None:
    reason = "onnxruntime cannot be imported"
    left = [
        Untried(knob="runtime", value="onnxruntime", reason=reason),
        Untried(knob="zero", reason="no ranks"),
    ]
    named = a_result(command=["tune", "serve.py", "--knob", "runtime=onnxruntime"], not_tried=left)
    assert ended(named).endswith(f"(runtime); runtime=onnxruntime was not tried: {reason}")
    many = a_result(command=["tune", "--knob", "runtime"], not_tried=[left[0]] * 5)
    assert ended(many).endswith("; 3 more were not")
    assert ended(a_result(not_tried=left)) == "nothing was left to try"


def test_what_was_tried_and_rejected_is_not_said_to_be_untried() -> None:
    refused = Untried(knob="quantization", reason="tried, not recommended: a loss of 2.18%")
    named = a_result(command=["tune", "serve.py", "--knob", "quantization"], not_tried=[refused])
    assert ended(named) == "nothing was left to try of what --knob allows (quantization)"


def test_lines_of_an_edit_that_do_not_follow_each_other_are_parted() -> None:
    diff = "--- a\n+++ b\n@@ -1,3 +1,4 @@\n model = m()\n+model.to(x)\n+model.fit(\n+    y)\n other\n"
    diff += "-f(a)\n+    f(b)\n end\n"
    assert added_lines(diff) == "model.to(x)\nmodel.fit(\n    y)\n...\nf(b)"


def test_a_change_in_peak_memory_beside_absolute_peaks_says_what_it_compares() -> None:
    told = "compares runs of the same length"
    assert told in files.render_html(a_result())
    assert told not in files.render_html(a_keep())
    unknown = a_result(recommendation=a_recommendation(memory_ratio=None))
    assert told not in files.render_html(unknown)


def test_a_call_in_python_is_repeated_by_that_call() -> None:
    result = a_result(command=["tune", IN_PYTHON])
    assert "Again: advisor.tune(...)  # the same arguments" in files.render_text(result, 200)
    assert IN_PYTHON not in files.render_html(result)


def test_what_the_environment_makes_is_set_and_unset_beside_the_patch() -> None:
    malloc = an_adopted(
        knob="malloc", before="libc", to="libc-tuned", semantics="exact",
        environment={"MALLOC_TRIM_THRESHOLD_": "1073741824"},
        snippet="# set before the program starts",
    )  # fmt: skip
    result = a_result(recommendation=a_recommendation(changes=[malloc]))
    told = {command.name: command.text for command in commands(result, editable=True)}
    assert told["Set"] == "export MALLOC_TRIM_THRESHOLD_=1073741824"
    assert told["Undo"] == "advisor apply advisor-report --revert && unset MALLOC_TRIM_THRESHOLD_"
    said = files.render_text(result, 400)
    assert "--write makes it; malloc you set before it starts. To undo: --revert, and `unset MALLOC_" in said
    assert "Set" not in {command.name for command in commands(a_result(), editable=True)}


@pytest.mark.parametrize(("outcome", "place"), [("confirmed", "opportunities"), ("no_effect", "diagnostics")])
def test_a_diagnostic_that_was_confirmed_to_gain_stands_among_the_opportunities(
    outcome: str, place: str
) -> None:
    finding = a_finding_of_launches(state="diagnostic").model_copy(update={"outcome": outcome})
    found = groups([finding], compiled())
    assert [row.rule for row in getattr(found, place)] == ["launch_bound"]
    assert len(found.opportunities) + len(found.diagnostics) == 1


@pytest.mark.parametrize(("outcome", "first"), [("not_tested", ["needless_groups"]), ("no_effect", [])])
def test_the_cause_of_what_was_confirmed_to_gain_stands_before_it(outcome: str, first: list[str]) -> None:
    fused = a_finding_of_launches(state="diagnostic")
    cause = fused.model_copy(
        update={"rule": "needless_groups", "explains": "launch_bound", "outcome": outcome}
    )
    other = fused.model_copy(update={"rule": "amp_unused", "outcome": "not_tested"})
    found = groups([cause, fused, other], compiled())
    assert [row.rule for row in found.opportunities] == [*first, "launch_bound"]
    assert found.diagnostics[-1].rule == "amp_unused"
