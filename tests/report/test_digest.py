"""The digest in Markdown and the text for a terminal."""

import json
import re
from typing import Any

import pytest
from html_tree import controls
from markdown_it import MarkdownIt
from result_builder import (
    a_ceiling,
    a_finding,
    a_harmless_twin,
    a_hostile_result,
    a_keep,
    a_profile_result,
    a_result,
    many_trials,
)

from advisor.report import files
from advisor.result.header import Target


def tokens(markdown: str) -> list[Any]:
    found = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [child for token in found for child in (token, *(token.children or []))]


def test_the_digest_opens_with_the_verdict() -> None:
    lines = files.render_markdown(a_result()).splitlines()
    assert lines[1].startswith(
        "**2.09x throughput (2.01 to 2.17, 99 %, 40 quads in 6 processes), peak memory"
    )


def test_hostile_names_leave_every_row_of_the_digest_one_row() -> None:
    hostile, harmless = (tokens(files.render_markdown(r)) for r in (a_hostile_result(), a_harmless_twin()))
    wanted = (
        "tr_open",
        "td_open",
        "th_open",
        "table_open",
        "heading_open",
        "bullet_list_open",
        "list_item_open",
    )
    for kind in wanted:
        assert sum(t.type == kind for t in hostile) == sum(t.type == kind for t in harmless), kind


def test_the_digest_holds_no_html_link_or_image_of_a_name() -> None:
    found = tokens(files.render_markdown(a_hostile_result()))
    assert not [t for t in found if t.type in ("link_open", "image", "html_inline")]
    blocks = {t.content for t in found if t.type == "html_block"}
    assert all(
        re.fullmatch(
            r"<!-- advisor -->\n|</details>|<details><summary>[A-Z][a-z ]+</summary>\n",
            b.replace("</details>\n", "</details>"),
        )
        for b in blocks
    )
    fences = [t for t in found if t.type == "fence"]
    assert len(fences) <= 1 and all(json.loads(fence.content) for fence in fences)


def test_the_digest_mentions_nobody_and_no_issue() -> None:
    rendered = [t.content for t in tokens(files.render_markdown(a_hostile_result())) if t.type == "text"]
    assert not [text for text in rendered if re.search(r"@\w|#\d", text)]


def test_the_digest_holds_no_bare_address_outside_code() -> None:
    assert not re.search(
        r"://|www\.",
        re.sub(r"(?s)```json\n.*?\n```\n|`[^`\n]*`", "", files.render_markdown(a_hostile_result())),
    )


def test_the_digest_of_many_trials_names_how_many_it_shows() -> None:
    digest = files.render_markdown(a_result(trials=many_trials(5000)))
    assert "### Trials: 10 of 4527 measured, by lower bound" in digest
    assert len(digest.encode()) < 64_000


def test_the_text_gives_verdict_changes_baseline_noise_and_what_to_do() -> None:
    text = files.render_text(a_result(), 200)
    assert text.splitlines()[0].startswith("2.09x throughput (2.01 to 2.17")
    for line in (
        "  num_workers: 0 -> 2 (exact), 1.65x (1.55 to 1.75, 99 %, 20 quads in 6 processes)",
        "          loss = criterion(model(x), y)",
        "      export ONEDNN_DEFAULT_FPMATH_MODE=BF16",
        "Baseline: 38.4 ms (37.6 to 39.2) a step, 1667 samples/s (1633 to 1700), peak memory 913 MiB",
        "Next: `advisor apply advisor-report` shows the 2 changes as a patch, --write makes them. "
        "To undo: --revert.",
        "Again: advisor tune train.py --budget 10m -- --epochs 1",
    ):
        assert line in text.splitlines()


def test_the_text_tells_what_was_found_and_lists_the_rest_only_when_asked() -> None:
    result = a_result(findings=a_profile_result().findings)
    text = files.render_text(result, 200)
    assert (
        "\nFound\n  41 % of each step waits for items that take 1.2 ms each (train.py:11): not tested\n"
        in text
    )
    assert "\nRules that passed: 1; that do not apply: 1; `--all` lists them.\n" in text
    assert "idle_device" not in text and "optimizer_bound" not in text
    asked = files.render_text(result, 200, everything=True)
    assert "\nPassed (1):\n  optimizer_bound: 4.2 % of each step updates parameters\n" in asked
    assert "\nNot applicable (1): idle_device\n" in asked and "`--all`" not in asked


@pytest.mark.parametrize(
    ("symptoms_line", "ceiling", "told"),
    [(58, None, False), (60, None, True), (58, a_ceiling(0.4, 0.3, 0.5), True)],
    ids=["same line and gain", "another line", "another gain"],
)
def test_a_symptom_of_the_line_and_gain_of_its_cause_is_told_when_asked(
    symptoms_line: int, ceiling: Any, told: bool
) -> None:
    cause = a_finding(
        "single_tensor_optimizer", title="21 % of each step updates parameters one by one",
        location={"file": "train.py", "line": 58, "function": "main"}, explains="optimizer_bound",
    )  # fmt: skip
    symptom = a_finding(
        "optimizer_bound", title="21 % of each step updates parameters",
        location={"file": "train.py", "line": symptoms_line, "function": "main"}, ceiling=ceiling,
    )  # fmt: skip
    result = a_result(findings=[cause, symptom])
    line = f"  21 % of each step updates parameters (train.py:{symptoms_line}): not tested"
    assert (line in files.render_text(result, 200).splitlines()) is told
    assert line in files.render_text(result, 200, everything=True).splitlines()
    assert "parameters one by one (train.py:58)" in files.render_text(result, 200)


def test_in_python_the_rest_is_named_by_its_attribute() -> None:
    result = a_result(findings=a_profile_result().findings, target=Target(path="model", kind="objects"))
    assert "`result.findings` lists them." in files.render_text(result, 200)


def test_the_text_of_keep_asks_for_nothing() -> None:
    text = files.render_text(a_keep(), 200)
    assert text.startswith("Keep what you have: no change was confirmed.")
    assert "Next: Nothing to change. A longer --budget sees smaller differences.\n" in text
    assert "Changes" not in text


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_text_keeps_to_the_width_and_carries_no_control_characters(width: int) -> None:
    text = files.render_text(a_hostile_result(), width)
    assert max(map(len, text.splitlines())) <= width
    assert controls(text) == set()
    assert "[red]x[/foo]" in text or width == 20
