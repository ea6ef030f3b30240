"""What ``advisor check`` tells a pipeline: annotations when asked for, a comment that fits, any names."""

import json
import re
from pathlib import Path

import pytest
from check_builder import a_check, a_failed_check, a_passed_step, some_memory
from result_builder import HOSTILE, a_ratio

from advisor.cli.commands.check import show
from advisor.report.annotations import MOST, annotations, command
from advisor.report.markdown import MOST_BYTES
from advisor.report.pages.check_page import MARKER, render_markdown
from advisor.result.check import CheckData, Resetting
from advisor.result.header import Target

COMMAND = re.compile(r"::(error|warning|notice) ([^:\r\n]*)::([^\r\n]*)")
UNESCAPES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the target in a folder below it, as the working directory."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("pass\n")
    monkeypatch.chdir(tmp_path / "src")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    return tmp_path


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner reads it: kind, properties, message."""
    match = COMMAND.fullmatch(line)
    assert match is not None, line
    properties = dict(part.split("=", 1) for part in match[2].split(","))
    return match[1], {name: plain(text) for name, text in properties.items()}, plain(match[3])


def plain(text: str) -> str:
    return re.sub("%(0D|0A|3A|2C|25)", lambda found: UNESCAPES[found[0]], text)


def test_a_regression_is_marked_at_the_file_as_the_repository_names_it() -> None:
    (line,) = annotations(a_failed_check())
    kind, properties, message = read(line)
    assert (kind, properties) == ("error", {"file": "src/train.py", "title": "advisor check"})
    assert message == (
        "Regression: the time of a step is 1.31x (1.24 to 1.38, 99 %, 6 processes) what it was; "
        "2.0 % is let pass."
    )


def test_what_passed_is_not_marked() -> None:
    assert annotations(a_check()) == []


def test_growth_within_the_limit_and_warnings_are_marked_as_such() -> None:
    grown = a_passed_step().model_copy(
        update={"verdict": "within_limit", "ratio": a_ratio(1.03, 1.01, 1.05, 0, 6)}
    )
    found = [read(line) for line in annotations(a_check(step_ms=grown, warnings=["the machine was busy"]))]
    assert [kind for kind, _, _ in found] == ["warning", "warning"]
    assert "1.03x" in found[0][2] and found[1][2] == "the machine was busy"


def test_errors_stand_before_warnings_and_no_more_is_written_than_is_shown() -> None:
    lines = annotations(a_failed_check(warnings=["busy"] * 100))
    assert lines[0].startswith("::error ") and len(lines) == 1 + MOST


@pytest.mark.parametrize("path", ["pkg.train", "/usr/bin/env", "missing.py", ""])
def test_a_target_that_is_no_file_of_the_repository_is_marked_without_one(path: str) -> None:
    (line,) = annotations(a_failed_check(target=Target(path=path, kind="script")))
    assert read(line)[1] == {"title": "advisor check"}


@pytest.mark.parametrize("name", [*HOSTILE, "::error::x", "a%0A::error::x", "a,line=1::x"])
def test_no_name_ends_a_command_or_begins_another(name: str) -> None:
    line = command("error", f"before {name} after", file=f"x{name}.py")
    kind, properties, message = read(line)
    assert kind == "error" and set(properties) == {"file", "title"}
    assert message.startswith("before ") and not re.search(r"[\x00-\x1f\x7f-\x9f]", message)


def test_annotations_go_to_stderr_when_asked_for_and_only_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert show(a_failed_check(), None, "json", annotate=True) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["verdict"] == "regressed"
    assert said.err.startswith("::error file=src/train.py,")

    assert show(a_failed_check(), None, "text") == 1
    assert "::error" not in "".join(capsys.readouterr())

    monkeypatch.delenv("GITHUB_ACTIONS")
    assert show(a_failed_check(), None, "text", annotate=True) == 1
    said = capsys.readouterr()
    assert "::error" not in said.out + said.err
    assert said.err.startswith("warning: --annotate github: this is not GitHub Actions")


def large(settings: int, warnings: int) -> CheckData:
    changed = [Resetting(knob=f"knob_{at}", then="a" * 60, now="b" * 60) for at in range(settings)]
    return a_failed_check(settings=changed, warnings=[f"warning {at} {'|' * 400}" for at in range(warnings)])


def test_a_comment_begins_with_its_marker_and_the_verdict() -> None:
    assert render_markdown(a_failed_check()).startswith(f"{MARKER}\n**Regression: ")


@pytest.mark.parametrize(("settings", "warnings"), [(0, 0), (0, 100), (600, 0), (600, 100)])
def test_a_comment_fits_and_loses_whole_sections_only(settings: int, warnings: int) -> None:
    text = render_markdown(large(settings, warnings))
    assert len(text.encode()) <= MOST_BYTES
    assert text.startswith(MARKER)
    assert text.count("| `knob_") in (0, settings)
    assert text.count("- warning ") in (0, warnings)
    assert ("settings that changed" in text) == (settings > 0 and "| `knob_" not in text)
    assert ("Everything is in `check.json`." in text) == (settings + warnings > 0)
    assert "| Peak memory |" in text and "Again: " in text


def test_both_quantities_are_marked_where_both_got_worse() -> None:
    hungry = some_memory().model_copy(update={"verdict": "regressed", "ratio": a_ratio(1.5, 1.4, 1.6, 0, 6)})
    found = [read(line) for line in annotations(a_failed_check(peak_bytes=hungry))]
    assert [kind for kind, _, _ in found] == ["error", "error"]
    assert "peak memory is 1.5" in found[1][2]
