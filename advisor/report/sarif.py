"""Findings as SARIF 2.1.0, for code hosts that show them at the line they belong to."""

import hashlib
import inspect
import json
import os
import re
from typing import Any
from urllib.parse import quote

from advisor.report.pages.findings_page import gain, outcome
from advisor.result.document import Document, Finding, ResultData
from advisor.result.wording import shown
from advisor.rules import RULES

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"high": "error", "medium": "warning", "low": "note"}
MOST = 5000  # what a code host shows of one run


def render_sarif(result: Document) -> str:
    """The findings that have a place, as one SARIF run; ends with a newline.

    A fingerprint is made of rule, function and title without numbers, never of the line: edits above it
    do not change it. The first ``MOST`` are written; the rest is in ``result.json``.
    """
    found = [
        f
        for f in result.findings
        if f.state in ("opportunity", "diagnostic") and f.location is not None and f.location.file
    ][:MOST]
    rules = sorted({shown(finding.rule) for finding in found})
    run = {
        "tool": {
            "driver": {
                "name": "advisor",
                "version": shown(result.advisor_version),
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules.index(shown(finding.rule)), result) for finding in found],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    rule = RULES.get(name)
    page = "" if rule is None else inspect.getdoc(type(rule)) or ""
    return {
        "id": name,
        "shortDescription": {"text": page.partition("\n")[0] or name},
        "fullDescription": {"text": page or name},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(finding: Finding, index: int, result: Document) -> dict[str, Any]:
    place = finding.location
    assert place is not None  # only such findings are shown
    tested = isinstance(result, ResultData) and finding.measured is not None
    could = outcome(finding, result if isinstance(result, ResultData) else None) if tested else gain(finding)
    said = [
        shown(finding.title, 300) or shown(finding.rule),
        could[:1].upper() + could[1:],
        shown(finding.advice, 1000),
    ]
    return {
        "ruleId": shown(finding.rule),
        "ruleIndex": index,
        "level": LEVELS.get(finding.severity or "low", "note"),
        "message": {"text": " ".join(f"{text.rstrip('.')}." for text in said if text)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(place.file)},
                    "region": {"startLine": max(1, place.line)},
                }
            }
        ],
        "partialFingerprints": {"advisor/v1": _fingerprint(finding)},
        "properties": {
            "kind": finding.kind,
            "outcome": finding.outcome,
            "knobs": list(map(shown, finding.knobs)),
        },
    }


def _fingerprint(finding: Finding) -> str:
    words = re.sub(r"\d+([.,]\d+)*", "", finding.title)
    function = finding.location.function if finding.location else ""
    return hashlib.sha256(f"{finding.rule}|{function}|{words}".encode(errors="replace")).hexdigest()[:32]


def _uri(file: str) -> str:
    """A path below the working directory is given relative to it, as code hosts want it; others whole."""
    here = os.getcwd()
    path = os.path.normpath(os.path.join(here, file))
    if path.startswith(os.path.join(here, "")):
        return quote(os.path.relpath(path, here), errors="replace")
    return f"file://{quote(path, errors='replace')}"
