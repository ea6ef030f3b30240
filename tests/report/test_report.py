"""What a report says, that its numbers are those of result.json, and the folder it is written to."""

import json
import os
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from html_tree import elements, parse, text_of, visible
from result_builder import (
    HOSTILE,
    a_hostile_result,
    a_keep,
    a_recommendation,
    a_result,
    an_interval,
    many_trials,
    some_trials,
)  # fmt: skip

from advisor.base.errors import EnvironmentProblem, UsageError
from advisor.report import files
from advisor.report.folder import check_folder
from advisor.report.pages.page import tiles
from advisor.result.document import Interval, ProfileData, ResultData, Value
from advisor.result.reading import read_document


def test_a_change_shows_verdict_changes_trials_failures_and_conditions() -> None:
    shown = text_of(parse(files.render_html(a_result())))
    for text in (
        "2 changes, num_workers=2, amp=bf16: 2.09x throughput",
        "2.09x throughput (2.01 to 2.17, 99 %, 40 quads in 6 processes), peak memory +6.2 %",
        "1.65x (1.55 to 1.75, 99 %, 20 quads in 6 processes)",
        "DataLoader(..., num_workers=2)",
        "export ONEDNN_DEFAULT_FPMATH_MODE=BF16",
        "input wait 42 %",
        "compile_failed: compilation failed (1)",
        ".advisor/logs/7.log",
        "throughput only, convergence unverified",
        "4 CPUs are allowed; at most four workers for each",
        "AMD EPYC 9454P 48-Core Processor",
        "no clear difference (0.991 to 1.015); differences from 1.8 % up could be seen",
        "other load 3",
        "nothing was left to try",
        "Memory and losses of trials that shared a process cannot be compared.",
        "advisor tune train.py --budget 10m -- --epochs 1",
    ):
        assert text in shown


def test_keep_names_the_smallest_difference_and_shows_no_table_of_changes() -> None:
    tree = parse(files.render_html(a_keep()))
    shown = text_of(tree)
    assert "The smallest difference that could have been seen is 1.8 %." in shown
    assert "the best candidate, num_workers=1, could not be told from the baseline" in shown
    assert "Before and after" not in shown
    assert "changes.patch" not in shown


def test_contention_is_said_in_the_head_and_in_the_conditions() -> None:
    noise = a_result().noise.model_copy(update={"contended": True})
    assert files.render_html(a_result(noise=noise)).count("The machine was contended") == 2


def test_without_findings_there_is_no_such_section_and_the_limits_say_so() -> None:
    shown = files.render_html(a_result())
    assert 'id="findings"' not in shown
    assert "no rules ran" in shown


def test_findings_are_shown_with_place_ceiling_and_outcome() -> None:
    finding = {
        "rule": "input_bound", "kind": "waste", "state": "opportunity", "severity": "high",
        "title": "42 % of each step waits for data", "location": {"file": "train.py", "line": 42},
        "ceiling": {"share": 0.41, "low": 0.38, "high": 0.44, "from": "model"}, "outcome": "not_tested",
    }  # fmt: skip
    shown = text_of(parse(files.render_html(a_result(findings=[finding]))))
    for text in (
        "train.py:42",
        "at most 41 % of the step could be gained (38 % to 44 %; model, not measured)",
        "not tested",
    ):
        assert text in shown


def test_a_change_without_a_confirming_trial_shows_no_after() -> None:
    shown = files.render_html(a_result(trials=some_trials()[:10]))
    assert "The confirmation left no times of its own" in shown


def test_the_tile_of_memory_tells_the_change_of_the_verdict_and_no_peak_of_another_process() -> None:
    result = a_result()
    smaller = [trial.model_copy(update={"peak_bytes": 900 * 2**20}) for trial in result.trials]
    (memory,) = (
        tile for tile in tiles(result.model_copy(update={"trials": smaller})) if "memory" in tile.name
    )
    assert memory.lines == [("now", "913 MiB"), ("changed", "+6.2 % (+5.1 to +7.3)")]


@pytest.mark.parametrize(
    ("ratio", "changed"),
    [(an_interval(1.0), "no clear difference (0.98 to 1.02)"), (None, "970 MiB")],
)
def test_the_tile_of_memory_without_a_change_to_tell(ratio: Interval | None, changed: str) -> None:
    found = a_recommendation(memory_ratio=ratio)
    (memory,) = (tile for tile in tiles(a_result(recommendation=found)) if "memory" in tile.name)
    assert memory.lines[1] == ("changed", changed)


def test_above_2000_trials_the_table_names_the_file_with_all() -> None:
    tree = parse(files.render_html(a_result(trials=many_trials(2500))))
    table = next(t for t in elements(tree, "table") if "sortable" in t.get("class", ""))
    assert len(elements(table, "tr")) == 2001
    assert "The first 2000 of 2500 trials; all of them are in result.json." in text_of(tree)


def test_every_number_shown_is_in_result_json() -> None:
    for result in (a_result(), a_keep()):
        assert strangers(files.render_html(result), result) == set()


def test_a_number_that_is_not_in_result_json_would_be_noticed() -> None:
    html = files.render_html(a_result())
    assert strangers(html.replace("2.09x", "2.37x").replace("22.1 ms", "77.7 ms"), a_result()) == {
        "2.37",
        "77.7",
    }


def strangers(html: str, result: ResultData | ProfileData) -> set[str]:
    """Numbers in the visible text, ticks of axes aside, that no value of the result explains."""
    data = json.loads(result.to_json())
    words, numbers = set[str](), set[float]()
    collect(data, words, numbers)
    for phases in (result.profile.phases_ms, result.profile.phases_after_ms or {}):
        numbers |= {part / (sum(phases.values()) or 1.0) for part in phases.values()}
        numbers.add(sum(phases.values()))
    numbers |= summaries(result)
    numbers |= {float(count) for count in range(len(result.trials) + 1)}  # rows counted by state or cause
    numbers |= {float(part) for part in divmod(round(result.budget.seconds), 60)}
    known = " ".join(words)
    return {
        token
        for token in re.findall(
            r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)|(?<![\w.])\d+(?:\.\d+)?(?=x)", visible(html)
        )
        if not re.search(rf"(?<![\d.]){re.escape(token)}(?![\d.])", known) and not explained(token, numbers)
    }


def summaries(result: ResultData | ProfileData) -> set[float]:
    """What the page makes of several values: medians by knob and value, quantiles by group of trials."""
    measured = [t for t in result.trials if t.state == "complete" and t.number and t.against_baseline]
    groups: dict[tuple[str, Value], list[float]] = {}
    for trial in measured:
        for setting in trial.config.items():
            assert trial.against_baseline is not None
            groups.setdefault(setting, []).append(trial.against_baseline.estimate)
    return {median(group) for group in groups.values()}


def collect(value: Any, words: set[str], numbers: set[float]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            words.add(key)
            collect(item, words, numbers)
    elif isinstance(value, list):
        for item in value:
            collect(item, words, numbers)
    elif isinstance(value, str):
        words.add(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        numbers.add(float(value))


def explained(token: str, numbers: set[float]) -> bool:
    digits = len(token.partition(".")[2])
    half = 0.5 * 10**-digits + 1e-9
    return any(
        abs(float(token) - abs(shown)) <= half
        for number in numbers
        for shown in (number, 100 * number, 100 * (number - 1), number / 2**20)
    )


def test_a_report_is_four_files(tmp_path: Path) -> None:
    folder = tmp_path / "advisor-report"
    paths = files.write_report(a_result(), folder)
    assert [path.name for path in paths] == ["report.html", "result.json", "report.md", "changes.patch"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in paths)
    assert read_document(folder) == a_result()


def test_a_hostile_result_reads_back(tmp_path: Path) -> None:
    files.write_report(a_hostile_result(), tmp_path)
    assert len(read_document(tmp_path).warnings) == len(HOSTILE)


def test_an_earlier_report_is_replaced_and_other_files_in_it_stay(tmp_path: Path) -> None:
    files.write_report(a_result(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    files.write_report(a_keep(), tmp_path)
    document = read_document(tmp_path)
    assert isinstance(document, ResultData) and document.recommendation.verdict == "keep"
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_with_leavings_of_a_killed_write_is_used(tmp_path: Path) -> None:
    (tmp_path / ".result.json.123.tmp").write_text("{")
    check_folder(tmp_path)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with pytest.raises(UsageError, match=r"train\.py is a file; --out is a directory"):
        check_folder(tmp_path / "train.py")


@pytest.mark.parametrize("name", ["notes.txt", "result.json", "report.html"])
def test_a_folder_of_someone_else_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"schema_version": 1}')
    with pytest.raises(UsageError, match="exists and was not made by advisor") as caught:
        files.write_report(a_result(), tmp_path)
    assert caught.value.hint == "choose another --out"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_whose_parent_is_missing_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=f"no such directory: {tmp_path}/nonexistent"):
        check_folder(tmp_path / "nonexistent" / "x")
    assert list(tmp_path.iterdir()) == []


def test_checking_a_new_folder_does_not_make_it(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentProblem, match="cannot write to"):
        check_folder(tmp_path / "new")


def test_a_write_that_fails_keeps_the_files_it_did_not_reach(tmp_path: Path) -> None:
    files.write_report(a_result(), tmp_path)
    before = (tmp_path / "changes.patch").read_bytes()
    (tmp_path / "report.md").unlink()
    (tmp_path / "report.md").mkdir()
    with pytest.raises(EnvironmentProblem, match="cannot write to"):
        files.write_report(a_keep(), tmp_path)
    assert (tmp_path / "changes.patch").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_rendering_is_repeatable() -> None:
    assert files.render_html(a_result()) == files.render_html(a_result())
    assert files.render_fragment(a_result()) == files.render_fragment(a_result())


def test_one_change_is_singular() -> None:
    found = a_recommendation(changes=a_recommendation().changes[:1])
    assert "1 change, num_workers=2: 2.09x throughput" in files.render_html(a_result(recommendation=found))
