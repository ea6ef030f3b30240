"""Names made to do harm, in every output of profile, tune, report, compare, check, apply and studies."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from check_builder import a_check, a_failed_check
from html_tree import controls, parse, parse_fragment, structure
from markdown_it import MarkdownIt
from profile_builder import a_named_profile
from result_builder import HOSTILE, MACHINE, PLAIN, a_named_result, a_result
from rich.console import Console

from advisor.base.errors import TargetError, UsageError, clean
from advisor.cli import main
from advisor.cli.commands import compare as compare_command
from advisor.cli.failures import Face, report_failure
from advisor.cli.progress import TerminalProgress
from advisor.patching.patch import changes_patch
from advisor.report import files
from advisor.report.annotations import annotations
from advisor.report.pages.check_page import render_markdown as check_markdown
from advisor.report.pages.check_page import render_text as check_text
from advisor.report.pages.compare_page import render_markdown as compare_markdown
from advisor.report.profile_text import render_profile
from advisor.report.progress import PlainProgress
from advisor.report.sarif import render_sarif
from advisor.result.check import CheckData
from advisor.result.compare import Given, compare
from advisor.result.document import ProfileSummary, ResultData
from advisor.result.reading import read_document
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store

RUNNER = ["::error file=a.py::x", "x\n::set-output name=a::b", "##[error]x", "y ##[group]z"]
EVERY = [*HOSTILE, *RUNNER]
PLAIN_TWINS = [*PLAIN, *(f"runner{index}" for index in range(len(RUNNER)))]
TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"
NAMES = [name for name in EVERY if name and "\0" not in name and "/" not in name and len(name) < 200]


def results(names: list[str]) -> ResultData:
    return a_named_result(names)


def compared(names: list[str]) -> Any:
    """Two results of one program on one machine, everything else named so."""
    names = list({clean(name): name for name in names}.values())  # one change per name that can be shown
    first, second = a_named_result(names), a_named_result(names)
    for each in (first, second):
        each.machine = MACHINE | each.machine | {"fingerprint": "f", "torch": "2.13.0"}
    second.created = "2026-11-21"
    second.warnings = [*second.warnings, "once more"]
    return compare(Given(names[0], first), Given(names[7], second))


def checked(names: list[str]) -> CheckData:
    return a_failed_check(
        command=["check", *names],
        target=a_check().target.model_copy(update={"path": names[0], "args": list(names)}),
        profile=ProfileSummary(phases_ms={f"{name}{index}": 1.5 for index, name in enumerate(names)}),
        reference=a_check().reference.model_copy(update={
            "path": names[7], "phases_ms": {f"{name}{index}": 1.0 for index, name in enumerate(names)},
        }),
        warnings=list(names),
        excluded_slots={f"{index} {name}": 1 for index, name in enumerate(names)},
    )  # fmt: skip


Render = Callable[[list[str]], str]
TEXTS: dict[str, Render] = {
    "tune text": lambda names: files.render_text(results(names), 100),
    "profile text": lambda names: render_profile(a_named_profile(names), 100),
    "compare text": lambda names: compare_command._text(compared(names)),
    "check text": lambda names: check_text(checked(names), 100),
    "patch": lambda names: changes_patch(results(names)),
}
MARKDOWN: dict[str, Render] = {
    "tune": lambda names: files.render_markdown(results(names)),
    "profile": lambda names: files.render_markdown(a_named_profile(names)),
    "compare": lambda names: compare_markdown(compared(names)),
    "check": lambda names: check_markdown(checked(names)),
}
DOCUMENTS: dict[str, Render] = {
    "tune": lambda names: results(names).to_json(),
    "profile": lambda names: a_named_profile(names).to_json(),
    "compare": lambda names: compared(names).to_json(),
    "check": lambda names: checked(names).to_json(),
    "tune sarif": lambda names: render_sarif(results(names)),
    "profile sarif": lambda names: render_sarif(a_named_profile(names)),
}
PAGES: dict[str, Render] = {
    "tune": lambda names: files.render_html(results(names)),
    "profile": lambda names: files.render_html(a_named_profile(names)),
}
FRAGMENTS: dict[str, Render] = {
    "tune": lambda names: files.render_fragment(results(names)),
    "profile": lambda names: files.render_fragment(a_named_profile(names)),
}


def assert_harmless(text: str) -> None:
    """Nothing in it moves a cursor, turns the direction of text, or is a command to a runner."""
    assert controls(text) == set()
    assert not {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029"} & set(text)
    text.encode("utf-8")
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert "##[" not in text


@pytest.mark.parametrize("render", TEXTS.values(), ids=TEXTS)
def test_text_for_a_terminal_holds_no_command_of_any_kind(render: Render) -> None:
    text = render(EVERY)
    assert_harmless(text)
    assert "[red]x[/foo]" in text or "[red]" not in "".join(render(["[red]x[/foo]"] * len(EVERY)))


@pytest.mark.parametrize("name", ["tune text", "profile text", "compare text", "check text"])
def test_lines_for_a_terminal_are_cut_to_its_width(name: str) -> None:
    longest = max(len(line) for line in TEXTS[name](EVERY).splitlines())
    assert longest <= 210  # one word, cut at 200 characters, is not broken


@pytest.mark.parametrize("render", DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents_are_json_without_lone_surrogates_and_numbers_that_are_none(render: Render) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = render(EVERY)
    text.encode("utf-8")
    assert isinstance(json.loads(text, parse_constant=refuse), dict)


def test_a_document_is_read_back_equal(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(results(EVERY).to_json(), encoding="utf-8")
    assert read_document(tmp_path).to_json() == results(EVERY).to_json()


def tokens(markdown: str) -> Iterator[Any]:
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        yield token
        yield from token.children or []


@pytest.mark.parametrize("render", MARKDOWN.values(), ids=MARKDOWN)
def test_markdown_keeps_its_rows_and_cells_and_holds_no_link_image_or_mention(render: Render) -> None:
    hostile, plain = (list(tokens(render(names))) for names in (EVERY, PLAIN_TWINS))
    for kind in ("tr_open", "td_open", "th_open", "table_open", "heading_open", "fence"):
        counts = [len([token for token in found if token.type == kind]) for found in (hostile, plain)]
        assert counts[0] == counts[1], kind
    assert not [token for token in hostile if token.type in ("link_open", "image", "html_inline")]
    written = [token.content for token in hostile if token.type == "text"]
    assert not [text for text in written if re.search(r"@\w|#\d", text)]
    assert_harmless(render(EVERY))


@pytest.mark.parametrize("render", PAGES.values(), ids=PAGES)
def test_pages_have_the_elements_and_attributes_that_harmless_names_give(render: Render) -> None:
    assert structure(parse(render(EVERY))) == structure(parse(render(PLAIN_TWINS)))
    assert controls(render(EVERY)) == set()


@pytest.mark.parametrize("render", FRAGMENTS.values(), ids=FRAGMENTS)
def test_fragments_for_a_notebook_have_no_script_and_stay_small(render: Render) -> None:
    hostile = render(EVERY)
    assert structure(parse_fragment(hostile)) == structure(parse_fragment(render(PLAIN_TWINS)))
    assert len(hostile.encode()) < 200_000


def test_annotations_are_one_line_each_and_end_where_they_should() -> None:
    for line in annotations(checked(EVERY), {}):
        assert re.fullmatch(r"::(error|warning|notice) [^\r\n]*", line)
        assert controls(line) == set()


@pytest.mark.parametrize("name", EVERY, ids=range(len(EVERY)))
def test_an_error_about_any_name_is_told_in_lines_without_commands(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    error = UsageError(f"no such file: {clean(name)}", where=name, cause=name, hint=name)
    assert report_failure(error, Face(json=True)) == 2
    said = capsys.readouterr()
    assert_harmless(said.err)
    assert set(json.loads(said.out)["error"]) >= {"message", "where"}
    failed = TargetError(name or "x", where=name)
    failed.trace = f"Traceback\n{name}\n  {name}"
    report_failure(failed, Face())
    assert_harmless(capsys.readouterr().err)


@pytest.mark.parametrize("name", EVERY, ids=range(len(EVERY)))
def test_progress_shows_any_name_as_text(name: str) -> None:
    plain = io.StringIO()
    lines = PlainProgress(plain)
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=60, color_system=None, highlight=False)
    with TerminalProgress(console) as terminal:
        for progress in (lines, terminal):
            progress.begin(f"{name}, script")
            progress.say(name)
            progress.trial(1, name, name, 1.0)
            progress.waiting(name, 60.0)
            progress.warn(name)
    assert_harmless(plain.getvalue())
    # nothing but the movements that the block itself makes
    assert_harmless(re.sub(r"\x1b\[\??[0-9;]*[A-Za-z]", "", shown.getvalue()).replace("\r", ""))
    assert "\x1b]" not in shown.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return tmp_path


@pytest.mark.parametrize("command", [["tune"], ["profile"]], ids=lambda words: words[0])
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_program_of_any_name_is_planned_and_shown_as_text(
    here: Path, capsys: pytest.CaptureFixture[str], command: list[str], name: str
) -> None:
    (here / f"{name}.py").write_text(TRAINING)
    for format in ("text", "json"):
        words = [*command, f"./{name}.py", "--dry-run", "--format", format, "--", *NAMES]
        assert main(words) == 0
        said = capsys.readouterr()
        assert_harmless(said.err)
        if format == "text":
            assert_harmless(said.out)
        else:
            assert json.loads(said.out)["dry_run"]["target"] == f"./{name}.py"


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_what_is_not_there_is_named_as_text(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for words in (
        ["tune", f"./{name}.py"], ["knobs", name], ["rules", name], ["report", name], ["apply", f"./{name}"],
        ["tune", "x.py", "--study", name], ["tune", "x.py", "--knob", name], ["studies", "--storage", name],
        ["tune", "x.py", "--storage", f"sqlite:///{name}/x.db"], ["init", f"./{name}.py"], [name],
        ["tune", "x.py", f"--{name}"], ["compare", f"./{name}", name], ["tune", "x.py", "--device", name],
    ):  # fmt: skip
        code = main([*words[:1], *words[1:]])
        said = capsys.readouterr()
        assert code in (0, 2, 5), words
        assert_harmless(said.err + said.out)


def test_studies_with_such_targets_are_listed_in_rows_of_text(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "sqlite:///.advisor/studies.db"
    with Store.open(parse_storage(url), create=True, warn=lambda text: None) as store:
        for index, name in enumerate(EVERY):
            if name != "-1":  # odd, but harmless
                with pytest.raises(UsageError, match="use letters"):
                    store.create_study(name, {})
            store.create_study(f"study-{index}", {"target": name, "fix": {name: name}})
            store.save_result(f"study-{index}", a_result(warnings=[name]))
    assert main(["studies"]) == 0
    text = capsys.readouterr().out
    assert_harmless(text)
    assert len(text.splitlines()) == len(EVERY) + 1
    assert max(map(len, text.splitlines())) <= 80
    assert main(["studies", "--format", "json"]) == 0
    document = capsys.readouterr().out
    document.encode("utf-8")
    assert len(json.loads(document)) == len(EVERY)


def test_a_name_is_cleaned_once_and_stays_as_it_is() -> None:
    for name in EVERY:
        assert clean(clean(name)) == clean(name)
    assert clean("aten::add and torch::jit") == "aten::add and torch::jit"
    assert clean(" ::error::x") == " \\::error::x"
    assert clean("a ##[group]") == "a ##\\[group]"
