"""Findings for code hosts: the shape of SARIF 2.1.0, places, stable fingerprints, any names, limits."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from html_tree import controls
from profile_builder import a_named_profile
from result_builder import HOSTILE, a_ceiling, a_finding, a_profile_result, a_result

from advisor.report import sarif
from advisor.report.sarif import render_sarif
from advisor.result.document import Finding

HERE = {"file": "train.py", "line": 42, "function": "main"}


def document_of(*findings: Finding) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_sarif(a_profile_result(findings=list(findings))))
    return found


def results_of(*findings: Finding) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document_of(*findings)["runs"][0]["results"]
    return found


def assert_shaped(document: dict[str, Any]) -> None:
    """What SARIF 2.1.0 and code hosts demand of the parts that are used here."""
    assert set(document) == {"$schema", "version", "runs"}
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    assert set(run) == {"tool", "columnKind", "results"}
    driver = run["tool"]["driver"]
    assert driver["name"] and isinstance(driver["version"], str)
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert isinstance(rule["shortDescription"]["text"], str)
        assert isinstance(rule["fullDescription"]["text"], str)
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert isinstance(result["message"]["text"], str)
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert re.fullmatch(
            r"[A-Za-z0-9._~/%-]+|file:///[A-Za-z0-9._~/%-]*", place["artifactLocation"]["uri"]
        )
        assert ".." not in place["artifactLocation"]["uri"].split("/")
        assert place["region"]["startLine"] >= 1
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())


def test_a_finding_is_told_at_its_line_with_gain_and_advice() -> None:
    finding = a_finding(
        severity="high", title="42 % of each step waits for data", location=HERE, advice="Use workers.",
        ceiling=a_ceiling(0.41, 0.38, 0.44), knobs=["num_workers"],
    )  # fmt: skip
    (result,) = results_of(finding)
    fingerprints = result.pop("partialFingerprints")
    assert result == {
        "ruleId": "input_bound", "ruleIndex": 0, "level": "error",
        "message": {
            "text": "42 % of each step waits for data. At most 41 % of the step could be gained "
            "(38 % to 44 %; measured: replay). Use workers."
        },
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": "train.py"}, "region": {"startLine": 42}}}
        ],
        "properties": {"kind": "waste", "outcome": "not_tested", "knobs": ["num_workers"]},
    }  # fmt: skip
    assert list(fingerprints) == ["advisor/v1"]


@pytest.mark.parametrize(("severity", "level"), [("high", "error"), ("medium", "warning"), ("low", "note")])
def test_the_level_is_the_severity(severity: str, level: str) -> None:
    (result,) = results_of(a_finding(severity=severity, location=HERE))
    assert result["level"] == level


def test_only_what_fired_and_has_a_place_is_told() -> None:
    states = ("passed", "not_applicable", "error")
    placeless = [a_finding(), a_finding(location=HERE | {"file": ""})]
    assert results_of(*placeless, *(a_finding(state=state, location=HERE) for state in states)) == []
    assert len(results_of(a_finding(state="diagnostic", location=HERE))) == 1


def test_results_and_rules_have_the_demanded_shape() -> None:
    for result in (a_profile_result(), a_profile_result(findings=[]), a_result(), a_named_profile(HOSTILE)):
        assert_shaped(json.loads(render_sarif(result)))


def test_the_page_of_a_rule_comes_along_and_an_unknown_one_has_its_name() -> None:
    rules = document_of(a_finding(location=HERE), a_finding("of_later", location=HERE))["runs"][0]["tool"][
        "driver"
    ]["rules"]
    pages = {rule["id"]: rule["fullDescription"]["text"] for rule in rules}
    assert pages["input_bound"].startswith("A step cannot start before its batch arrives")
    assert pages["of_later"] == "of_later"


def fingerprint(**fields: Any) -> str:
    place = HERE | {name: fields.pop(name) for name in ("line", "function") if name in fields}
    (result,) = results_of(a_finding(**({"title": "42 % waits for 3 loaders", "location": place} | fields)))
    found: str = result["partialFingerprints"]["advisor/v1"]
    return found


def test_a_fingerprint_survives_moved_lines_and_other_numbers() -> None:
    assert fingerprint() == fingerprint(line=77) == fingerprint(title="9.5 % waits for 12 loaders")


@pytest.mark.parametrize(
    "other", [{"rule": "slow_item"}, {"function": "train"}, {"title": "42 % waits for disks"}]
)
def test_another_rule_function_or_text_is_another_finding(other: dict[str, Any]) -> None:
    assert fingerprint(**other) != fingerprint()


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("train.py", "train.py"),
        ("./src/../train.py", "train.py"),
        ("a b/ü#?.py", "a%20b/%C3%BC%23%3F.py"),
        ("HERE/src/train.py", "src/train.py"),
        ("/elsewhere/x.py", "file:///elsewhere/x.py"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("bad\udcff.py", "bad%3F.py"),
    ],
)
def test_a_place_is_given_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (result,) = results_of(a_finding(location=HERE | {"file": file.replace("HERE", str(tmp_path))}))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_no_place_climbs_out_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (result,) = results_of(a_finding(location=HERE | {"file": "../other/x.py"}))
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == f"file://{tmp_path.parent}/other/x.py"


def test_a_line_that_is_not_known_is_the_first() -> None:
    (result,) = results_of(a_finding(location=HERE | {"line": 0}))
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_hostile_names_leave_no_control_characters() -> None:
    text = render_sarif(a_named_profile(HOSTILE))
    told = list(strings(json.loads(text)))
    assert controls("".join(told)) == set()
    assert text.isascii() and text.endswith("}\n")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from strings(item)


def test_no_more_than_a_code_host_shows_is_written_and_the_first_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sarif.MOST == 5000
    monkeypatch.setattr(sarif, "MOST", 50)
    findings = [a_finding(f"rule_{number}", location=HERE) for number in range(57)]
    (run,) = document_of(*findings)["runs"]
    assert len(run["results"]) == len(run["tool"]["driver"]["rules"]) == 50
    assert (run["results"][0]["ruleId"], run["results"][-1]["ruleId"]) == ("rule_0", "rule_49")


def test_rendering_is_repeatable() -> None:
    assert render_sarif(a_profile_result()) == render_sarif(a_profile_result())
