"""The digest as a comment on a pull request: its size, what is left out, and its fields for programs."""

import json
from typing import Any

import pytest
from markdown_it import MarkdownIt
from report_pages import KINDS, a_full_result
from result_builder import (
    a_hostile_result,
    a_keep,
    a_profile_result,
    a_result,
    a_trial,
    many_trials,
    some_findings,
)

from advisor.report import digest, files
from advisor.result.document import ProfileData, ResultData, Trial, Untried


def fields(result: ResultData | ProfileData) -> dict[str, Any]:
    tokens = MarkdownIt("commonmark").parse(files.render_markdown(result))
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert fence.info == "json"
    found: dict[str, Any] = json.loads(fence.content)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_digest_fits_a_comment_and_opens_with_its_marker_and_the_verdict(kind: str) -> None:
    text = files.render_markdown(KINDS[kind]())
    assert len(text.encode()) <= 64_000
    assert text.startswith("<!-- advisor -->\n**") and text.count("<!-- advisor -->") == 1


def a_failed(number: int, message: str) -> Trial:
    return a_trial(number, state="failed", cause="timeout", message=message)


def a_long_result() -> ResultData:
    """With more of everything than a comment holds."""
    long = "|<>`*_" * 60
    return a_result(
        not_tried=[Untried(knob=f"k{number}", reason=long) for number in range(300)],
        trials=[*many_trials(300), *(a_failed(number, long) for number in range(300, 400))],
        warnings=[long] * 200,
        findings=some_findings() * 5,
    )  # fmt: skip


def test_what_does_not_fit_is_left_out_as_whole_sections_and_named() -> None:
    text = files.render_markdown(a_long_result())
    assert len(text.encode()) <= 64_000
    said = text.rstrip().splitlines()[-1]
    assert said.startswith("Left out to fit a comment: Not tried") and said.endswith("result.json.")
    for name in said.removeprefix("Left out to fit a comment: ").partition(".")[0].split(", "):
        assert f"<summary>{name}</summary>" not in text and f"### {name}" not in text
    assert text.count("<details>") == text.count("</details>")
    assert "### Changes" in text


def test_a_digest_that_fits_leaves_nothing_out() -> None:
    text = files.render_markdown(a_full_result())
    assert "Left out" not in text
    for name in ("Trials", "Not tried", "Limits", "Fields"):
        assert f"<details><summary>{name}</summary>\n\n" in text


def test_long_tables_have_ten_rows_in_sight() -> None:
    visible = digest.markdown(a_long_result()).partition("<details>")[0]
    tables = [part for part in visible.split("\n\n") if part.startswith("| ")]
    assert tables and all(len(table.splitlines()) <= 12 for table in tables)


SEARCH = {
    "schema_version", "advisor_version", "command", "target", "baseline", "phases_ms", "findings",
    "findings_left_out", "budget", "objective", "noise", "recommendation", "phases_after_ms", "trials",
    "failures", "not_tried", "apply",
}  # fmt: skip


def test_the_names_of_the_fields_stay() -> None:
    found = fields(a_full_result())
    assert found.keys() == SEARCH
    assert found["recommendation"].keys() == {
        "verdict", "speedup", "memory_ratio", "numerics", "break_even_steps", "reason", "changes",
        "changes_left_out",
    }  # fmt: skip
    assert found["baseline"].keys() == {"step_ms", "throughput", "peak_bytes"}
    assert found["recommendation"]["changes"][0].keys() == {
        "knob", "from", "to", "semantics", "contribution", "numerics", "snippet", "environment",
    }  # fmt: skip
    assert fields(a_profile_result()).keys() == {
        "schema_version", "advisor_version", "command", "target", "baseline", "phases_ms", "findings",
        "findings_left_out", "budget",
    }  # fmt: skip


def test_the_fields_hold_the_verdict_failures_and_the_first_ten_findings() -> None:
    found = fields(a_result(findings=some_findings() * 5))
    assert found["recommendation"]["verdict"] == "change" and found["apply"] == "advisor apply advisor-report"
    assert found["failures"] == {"compile_failed": 1, "oom_host": 1}
    assert len(found["findings"]) == 10 and found["findings_left_out"] == 10
    assert found["findings"][0]["ceiling"] == {
        "share": 0.41,
        "low": 0.38,
        "high": 0.44,
        "from": "replay",
        "of": "step",
    }
    assert fields(a_keep())["apply"] is None


def test_hostile_names_cannot_end_the_block() -> None:
    assert fields(a_hostile_result())["recommendation"]["verdict"] == "change"
