"""The report of a profile: offline, safe and accessible as that of a search; its text and its digest."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from html_tree import SVG, controls, elements, parse, parse_fragment, structure, text_of, visible
from markdown_it import MarkdownIt
from profile_builder import a_named_profile, an_empty_profile
from result_builder import HOSTILE, PLAIN, a_ceiling, a_finding, a_profile_result
from test_report import collect, explained

from advisor.report import files
from advisor.report.pages.findings_page import finding_row, gain, outcome
from advisor.report.profile_text import render_profile
from advisor.result.document import Finding, Interval, ProfileData
from advisor.result.header import Target

KINDS: dict[str, Callable[[], ProfileData]] = {
    "script": a_profile_result,
    "empty": an_empty_profile,
    "hostile": lambda: a_named_profile(HOSTILE),
}
READ = a_profile_result(target=Target(path="rank0.json, rank1.json", kind="trace"), baseline=None)


@pytest.fixture(scope="module", params=KINDS)
def page(request: pytest.FixtureRequest) -> str:
    return files.render_html(KINDS[request.param]())


def test_it_is_valid_html_with_a_policy_that_allows_exactly_its_own_script(page: str) -> None:
    tree = parse(page)
    (script,) = elements(tree, "script")
    digest = base64.b64encode(hashlib.sha256((script.text or "").encode()).digest()).decode()
    head = elements(tree, "head")[0]
    assert head[0].attrib == {
        "http-equiv": "Content-Security-Policy",
        "content": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
    }
    assert head[1].attrib == {"charset": "utf-8"}


def test_nothing_is_requested_from_elsewhere_and_no_attribute_runs_script(page: str) -> None:
    tree = parse(page)
    assert not elements(tree, "link", "img", "iframe", "object", "embed", "base", "form", "image", "use")
    assert {node.get("href", "#")[0] for node in elements(tree, "a")} == {"#"}
    attributes = [(str(name), value) for node in tree.iter() for name, value in node.attrib.items()]
    assert not [name for name, _ in attributes if name == "src" or name.startswith("on")]
    style = "".join(node.text or "" for node in elements(tree, "style"))
    assert "@import" not in style and "url(" not in style
    assert all(value.startswith("url(#") for _, value in attributes if "url(" in value)


def test_ids_are_unique_and_every_reference_finds_its_own(page: str) -> None:
    tree = parse(page)
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    links = [node.get("href", "")[1:] for node in elements(tree, "a")]
    labels = [name for node in tree.iter() for name in (node.get("aria-labelledby") or "").split()]
    fills = re.findall(r"url\(#([^)]*)\)", page)
    assert set(links + labels + fills) <= set(ids)


def test_headings_start_at_one_and_skip_no_level(page: str) -> None:
    headings = elements(parse(page), "h1", "h2", "h3", "h4")
    levels = [int(str(node.tag)[-1]) for node in headings]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(text_of(node) for node in headings)


def test_no_section_is_a_heading_alone(page: str) -> None:
    for section in elements(parse(page), "section"):
        heading = text_of(elements(section, "h2")[0])
        assert text_of(section) != heading, heading


def test_tables_have_captions_and_scoped_heads(page: str) -> None:
    for table in elements(parse(page), "table"):
        (caption,) = elements(table, "caption")
        assert text_of(caption)
        assert {head.get("scope") for head in elements(table, "th")} <= {"row", "col"}


def test_every_chart_has_a_title_a_description_and_its_numbers_in_a_table(page: str) -> None:
    figures = elements(parse(page), "figure")
    assert figures
    for figure in figures:
        (svg,) = elements(figure, "svg")
        assert svg.get("role") == "img" and svg.get("viewBox")
        assert [child.tag for child in svg[:2]] == [SVG + "title", SVG + "desc"]
        assert svg.get("aria-labelledby") == f"{svg[0].get('id')} {svg[1].get('id')}"
        assert text_of(svg[0]) and text_of(svg[1])
        (details,) = elements(figure, "details")
        assert len(elements(details, "table")) == 1


def test_it_has_a_language_a_skip_link_landmarks_and_no_control_that_needs_the_script(page: str) -> None:
    tree = parse(page)
    assert tree.get("lang") == "en"
    assert elements(tree, "a")[0].get("href") == "#main"
    for name in ("header", "nav", "main", "footer", "h1"):
        assert len(elements(tree, name)) == 1, name
    assert not elements(tree, "button", "input", "select")


def test_hostile_names_leave_elements_and_attributes_as_plain_ones_do() -> None:
    hostile, plain = (parse(files.render_html(a_named_profile(names))) for names in (HOSTILE, PLAIN))
    assert structure(hostile) == structure(plain)


def test_hostile_names_leave_the_notebook_fragment_as_plain_ones_do() -> None:
    hostile, plain = (parse_fragment(files.render_fragment(a_named_profile(n))) for n in (HOSTILE, PLAIN))
    assert structure(hostile) == structure(plain)


def test_hostile_names_are_shown_as_themselves_and_cut_where_long() -> None:
    shown = text_of(parse(files.render_html(a_named_profile(HOSTILE))))
    for name in ("{{7*7}}", "${7*7}", "<script>alert(1)</script>", "[red]x[/foo]", "\\xff"):
        assert name in shown
    assert "x" * 2000 not in shown


RENDERERS: list[Any] = [files.render_html, files.render_markdown, lambda result: render_profile(result, 80)]


@pytest.mark.parametrize("render", RENDERERS, ids=["html", "md", "text"])
def test_no_face_carries_control_or_direction_characters(render: Any) -> None:
    assert controls(render(a_named_profile(HOSTILE))) == set()


def test_a_hostile_profile_reads_back() -> None:
    data = json.loads(a_named_profile(HOSTILE).to_json().encode())
    assert ProfileData.model_validate(data).findings[0].title == HOSTILE[0]


def test_a_report_without_findings_stays_within_60_kb() -> None:
    assert len(files.render_html(an_empty_profile()).encode()) <= 60_000


def test_the_report_shows_findings_operators_measurements_and_conditions() -> None:
    shown = text_of(parse(files.render_html(a_profile_result())))
    for text in (
        "advisor profile of train.py",
        "41 % of each step waits for items that take 1.2 ms each",
        "7 rules: 3 opportunities, 1 diagnostic, 1 passed, 1 not applicable, 1 failed while checking.",
        "38.4 ms (37.6 to 39.2)",
        "cause of input_bound",
        "at most 24 % of the step could be gained (17 % to 31 %; model, not measured)",
        "A step cannot start before its batch arrives",
        "device timeline: needs a GPU",
        "KeyError: 'frames'",
        "41 % of the step goes (38 % to 44 %)",
        "time of a step: 1.22x (1.15 to 1.29)",
        "not replayed: the optimizer takes a closure",
        "41.0 MiB",
        "60.9 G",
        "a step reaches 31 % of the limit of arithmetic",
        "20 steps, 529 events each",
        "the time did not allow every stage of the diagnosis",
        "advisor profile train.py -- --epochs 1",
        "Nothing was tried",
        "sha256:9b1c",
    ):
        assert text in shown, text


def test_operators_are_told_with_their_share_of_the_step_where_steps_are_known() -> None:
    wanted = ["aten::mm", "backward", "4", "6.31 ms", "16 %", "float32", "train.py:52"]
    assert operator_rows(a_profile_result())[0] == wanted
    summary = a_profile_result().profile.model_copy(update={"phases_ms": {}})
    assert operator_rows(a_profile_result(profile=summary))[0][4] == ""


def operator_rows(result: ProfileData) -> list[list[str]]:
    tables = elements(parse(files.render_html(result)), "table")
    table = next(t for t in tables if text_of(elements(t, "caption")[0]).startswith("Self time"))
    return [[text_of(cell) for cell in row] for row in elements(table, "tr")[1:]]


def test_the_report_of_a_trace_says_what_a_trace_cannot_show() -> None:
    shown = text_of(parse(files.render_html(READ)))
    assert "Only a trace was read: rules that need the program itself abstained." in shown
    assert "Watching added to a step" not in shown
    assert "Time of a step" not in shown


def test_every_number_shown_is_in_result_json() -> None:
    result = a_profile_result()
    html = files.render_html(result)
    assert strangers(html, result) == set()
    assert strangers(html.replace("6.31 ms", "7.77 ms"), result) == {"7.77"}


def strangers(html: str, result: ProfileData) -> set[str]:
    """Numbers in the visible text that no value of the result explains."""
    words, numbers = set[str](), set[float]()
    collect(json.loads(result.to_json()), words, numbers)
    step_ms = sum(result.profile.phases_ms.values())
    numbers |= {part / step_ms for part in result.profile.phases_ms.values()}
    numbers |= {op.self_ms / step_ms for op in result.profile.operators}
    numbers |= {rate / 1e9 for rate in result.profile.rates.values()}
    numbers |= {float(count) for count in range(len(result.findings) + 1)}
    tokens = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)|(?<![\w.])\d+(?:\.\d+)?(?=x)", visible(html))
    known = " ".join(words)
    pages = " ".join(finding_row(finding).page for finding in result.findings)
    return {
        token
        for token in tokens
        if not re.search(rf"(?<![\d.]){re.escape(token)}(?![\d.])", known + pages)
        and not explained(token, numbers)
    }


MEASURED = Interval(estimate=1.3, low=1.2, high=1.4)
CEILING = a_ceiling(0.41, 0.38, 0.44)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (a_finding(ceiling=CEILING),
         "at most 41 % of the step could be gained (38 % to 44 %; measured: replay)"),
        (a_finding(ceiling=a_ceiling(0.041, 0.03, 0.052, "timeline", "run")),
         "at most 4.1 % of the run could be gained (3.0 % to 5.2 %; measured times)"),
        (a_finding(ceiling=a_ceiling(0.2, 0.1, 0.3, "model")),
         "at most 20 % of the step could be gained (10 % to 30 %; model, not measured)"),
        (a_finding(ceiling=CEILING, evidence={"disturbed_by": ["other_load", "throttled"]}),
         "at most 41 % of the step could be gained (38 % to 44 %; measured: replay); "
         "disturbed by other load, throttled"),
        (a_finding(ceiling=CEILING, evidence={"every_step_flagged": True}),
         "at most 41 % of the step could be gained (38 % to 44 %; measured: replay); "
         "no step was without an evaluation, a save, a new epoch or a compilation"),
        (a_finding(ceiling=CEILING, measured=MEASURED), "measured: 1.30x (1.20 to 1.40)"),
        (a_finding(measured=Interval(estimate=1.01, low=0.98, high=1.04)),
         "measured: no clear difference (0.98 to 1.04)"),
        (a_finding(state="passed", ceiling=CEILING), ""),
        (a_finding(state="diagnostic"), ""),
    ],
    ids=["replay", "timeline", "model", "disturbed", "flagged", "measured", "unclear", "passed", "none"],
)  # fmt: skip
def test_the_gain_is_told_in_fixed_words(finding: Finding, said: str) -> None:
    assert gain(finding) == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outcome": "confirmed", "measured": MEASURED}, "confirmed"),
        ({"outcome": "no_effect", "measured": MEASURED}, "no effect"),
        ({"outcome": "harmful", "measured": MEASURED}, "harmful"),
        ({"why": "amp: no units for it"}, "not tested: amp: no units for it"),
        ({}, "not tested"),
    ],
)
def test_the_outcome_is_told_in_fixed_words(fields: dict[str, Any], said: str) -> None:
    assert outcome(a_finding(**fields)) == said


GOLDEN = """\
41 % of each step waits for items that take 1.2 ms each

Time of a step: 38.4 ms (37.6 to 39.2)
Throughput: 1667 samples/s (1633 to 1700)
Peak memory: 913 MiB
Steps watched: 93

One step:
  input wait        16.2 ms        42 %  ########################
  backward          11.4 ms        30 %  #################
  forward           7.93 ms        21 %  ############
  optimizer         1.62 ms       4.2 %  ##
  other            0.520 ms       1.4 %  #
  sync             0.420 ms       1.1 %  #
  transfer         0.310 ms       0.8 %  #

1. [high waste] 41 % of each step waits for items that take 1.2 ms each
   (train.py:11)
   at most 41 % of the step could be gained (38 % to 44 %; measured: replay)
   Decode items once and store them: `torch.save(items, path)`.
   rule slow_item; a cause of input_bound; tried by num_workers, in_memory_cache

2. [high waste] 42 % of each step waits for data (train.py:42)
   at most 41 % of the step could be gained (38 % to 44 %; measured: replay)
   Make batches in worker processes: `DataLoader(..., num_workers=2)`.
   rule input_bound; tried by num_workers, prefetch_factor

3. [medium headroom] 71 % of compute is in float32 where 16 bits would do
   at most 24 % of the step could be gained (17 % to 31 %; model, not measured)
   Autocast.
   rule amp_unused; tried by amp

4. [high risk] 120 MiB more memory
   Keep numbers, not tensors.
   rule memory_growth

Rules that passed: 1; that do not apply: 1; `--all` lists them.

Failed while checking: graph_breaks: KeyError: 'frames'
warning: the program wrote 2 files in its working folder: runs/events.1, last.pt
warning: the time did not allow every stage of the diagnosis

Next: `advisor tune train.py -- --epochs 1` tries what can be tried and measures
it.
Again: advisor profile train.py -- --epochs 1
"""


def test_the_text_of_every_state_reads_so() -> None:
    assert render_profile(a_profile_result(), 80) == GOLDEN


def test_all_lists_the_rules_that_found_nothing() -> None:
    text = render_profile(a_profile_result(), 80, everything=True)
    listed = "Passed (1):\n  optimizer_bound: 4.2 % of each step updates parameters\n\n"
    listed += "Not applicable (1): idle_device"
    assert text == GOLDEN.replace("Rules that passed: 1; that do not apply: 1; `--all` lists them.", listed)


def test_a_profile_without_findings_says_so() -> None:
    assert render_profile(an_empty_profile(), 80) == (
        "One run, looked at closely\n\n"
        "No rule found anything to change.\n\n"
        "Next: `advisor profile` on the program itself runs the rules that abstained.\n"
        "Again: advisor profile trace.json\n"
    )


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_the_text_keeps_to_the_width(kind: str, width: int) -> None:
    assert max(map(len, render_profile(KINDS[kind](), width).splitlines())) <= width


def next_of(**fields: Any) -> str:
    text = render_profile(a_profile_result(**fields), 500)
    return next(line for line in text.splitlines() if line.startswith("Next: "))


def test_the_next_command_is_a_search_for_the_same_target() -> None:
    module = {"target": Target(path="pkg.train", kind="script"), "command": ["profile", "-m", "pkg.train"]}
    assert "`advisor tune -m pkg.train`" in next_of(**module)
    odd = Target(path="my train.py", kind="script", args=["-m", "a b"])
    assert "`advisor tune 'my train.py' -- -m 'a b'`" in next_of(
        target=odd, command=["profile", "my train.py", "--", "-m", "a b"]
    )


def test_without_anything_to_try_the_next_command_is_a_page_of_a_rule() -> None:
    assert next_of(findings=[]) == "Next: `advisor rules ID` shows the page of a rule."


def tokens(markdown: str) -> list[Any]:
    found = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [child for token in found for child in (token, *(token.children or []))]


def test_the_digest_opens_with_what_was_found_and_holds_no_more_than_ten_findings() -> None:
    digest = files.render_markdown(a_profile_result(findings=[a_finding(f"r{n}") for n in range(14)]))
    assert digest.splitlines()[1] == "**41 % of each step waits for items that take 1.2 ms each**"
    assert "### Findings: 10 of 14" in digest


def test_hostile_names_leave_every_row_of_the_digest_one_row() -> None:
    hostile, plain = (tokens(files.render_markdown(a_named_profile(names))) for names in (HOSTILE, PLAIN))
    for kind in ("tr_open", "td_open", "th_open", "table_open", "heading_open", "list_item_open"):
        assert sum(t.type == kind for t in hostile) == sum(t.type == kind for t in plain), kind


def test_the_digest_holds_no_html_link_image_mention_or_issue_of_a_name() -> None:
    digest = files.render_markdown(a_named_profile(HOSTILE))
    found = tokens(digest)
    assert not [t for t in found if t.type in ("link_open", "image", "html_inline")]
    opened = r"(</details>\n)?(<details><summary>[A-Z][a-z]+</summary>\n)?|<!-- advisor -->\n"
    assert all(re.fullmatch(opened, t.content) for t in found if t.type == "html_block")
    assert not [t.content for t in found if t.type == "text" and re.search(r"@\w|#\d", t.content)]
    assert not re.search(r"://|www\.", re.sub(r"(?s)```json\n.*?\n```\n|`[^`\n]*`", "", digest))


def test_rendering_is_repeatable() -> None:
    assert files.render_html(a_profile_result()) == files.render_html(a_profile_result())


def test_the_page_names_the_command_that_tries_changes_where_there_is_one() -> None:
    command = "advisor tune train.py -- --epochs 1"
    assert command in files.render_html(a_profile_result())
    trace = Target(path="trace.json", kind="trace")
    assert "Try and measure" not in files.render_html(
        a_profile_result(target=trace, command=["profile", "trace.json"])
    )
