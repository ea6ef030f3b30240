"""The list of rules and their pages."""

import json
import re
from pathlib import Path

import pytest
from command_line import assert_told_once, contents, say
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.advice.rule import Family
from advisor.cli import main
from advisor.cli.commands.rules import complete_rule, listing
from advisor.rules import RULES
from advisor.tuners.strategies import STRATEGIES


def test_every_rule_is_listed_under_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, list[str]] = {}
    for line in say(capsys, "rules").out.splitlines():
        if line and not line.startswith(" "):
            family = line
        elif line:
            found.setdefault(family.lower(), []).append(line.split()[0])
    assert list(found) == [family.value for family in Family]
    for family, names in found.items():
        assert names == [name for name, rule in RULES.items() if rule.family.value == family]


def test_a_rule_is_listed_with_its_first_sentence_also_where_that_holds_code() -> None:
    line = next(line for line in listing().splitlines() if line.strip().startswith("sync_points"))
    assert line.startswith("  sync_points (waste): A call such as `loss.item()`")


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_no_width_loses_a_rule(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    listed = listing()
    assert {line.split()[0] for line in listed.splitlines() if line.startswith("  ")} == set(RULES)
    assert columns == "20" or max(map(len, listed.splitlines())) <= int(columns)


@pytest.mark.parametrize("name", RULES)
def test_the_page_of_a_rule_says_when_it_fires_and_what_tests_it(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said = say(capsys, "rules", name)
    rule = RULES[name]
    assert said.code == 0
    assert said.out.startswith(f"{name}\n\n")
    for text in (f"Family: {rule.family.value}", f"Kind: {rule.kind.value}", f"Fires when: {rule.threshold}"):
        assert text in said.out.splitlines()
    tested = re.search(r"^Tested by: (.*)$", said.out, re.MULTILINE)
    known = {f"strategy={name}" if name in STRATEGIES else name for name in rule.knobs}
    assert tested is not None
    assert set(tested[1].split(", ")) == (known or {"nothing: the advice is for you to follow"})


def test_rules_are_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    every = json.loads(say(capsys, "rules", "--format", "json").out)
    assert [entry["id"] for entry in every] == list(RULES)
    one = json.loads(say(capsys, "rules", "input_bound", "--format", "json").out)
    assert one in every
    assert list(one) == ["id", "family", "kind", "threshold", "knobs", "explains", "page"]
    assert one["knobs"] == ["num_workers", "prefetch_factor", "in_memory_cache"]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("input_boud",), ("unknown rule 'input_boud'", "did you mean input_bound?")),
        (("zzzzzzz",), ("unknown rule 'zzzzzzz'", "`advisor rules` lists them")),
        (("",), ("unknown rule ''",)),
        (("\x1b[2J\u202e<b>",), ("unknown rule '[2J<b>'",)),
        (("input_bound", "slow_item"), ("got an unexpected extra argument (slow_item)",)),
        (("--format", "md"), ("'md' is not one of 'text', 'json'",)),
        (("--frmat", "md"), ("No such option '--frmat'.",)),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], texts: tuple[str, ...],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    said = say(capsys, "rules", *arguments)
    assert_told_once(said, 2, texts)
    assert said.out == ""
    assert contents(tmp_path) == {}


@settings(max_examples=40, deadline=None)
@given(name=st.text(max_size=30))
def test_any_name_is_answered(name: str) -> None:
    assert main(["rules", name]) in (0, 2)


def test_names_complete() -> None:
    from click import Context

    from advisor.cli.commands.rules import command

    found = complete_rule(Context(command), command.params[0], "slow_")
    assert found == [name for name in RULES if name.startswith("slow_")]
