"""A result in few fields for programs and language models: the names are those of result.json.

The block ``Fields`` at the end of report.md holds them as JSON. Every one has ``schema_version``,
``advisor_version``, ``command``, ``target``, ``baseline``, ``phases_ms``, ``findings``,
``findings_left_out`` and ``budget``. Of a search also ``objective``, ``noise``, ``recommendation``,
``phases_after_ms``, ``trials`` (how many by state), ``failures`` (how many by cause), ``not_tried`` (how
many) and ``apply`` (the command that shows the patch; null where there is nothing to apply). ``findings``
holds the first ten that fired, ``findings_left_out`` says how many more there are. Figures are rounded to
six digits; everything else is in result.json.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from advisor.report.next_step import apply_command
from advisor.result import wording
from advisor.result.document import Document, ProfileData, ResultData
from advisor.result.header import Record

MOST_FINDINGS = 10
MOST_CHANGES = 20
MOST_TEXT = 300
DIGITS = 6
OF_FINDINGS = (
    "rule", "kind", "state", "severity", "title", "location", "ceiling", "explains", "advice", "knobs",
    "outcome", "measured",
)  # fmt: skip
OF_CHANGES = ("knob", "from", "to", "semantics", "contribution", "numerics", "snippet", "environment")


def fields(result: ResultData | ProfileData) -> dict[str, Any]:
    """The fields of a result, ready for JSON."""
    whole = {**_common(result), **(_of_search(result) if isinstance(result, ResultData) else {})}
    known: dict[str, Any] = plain(whole)
    return known


def block(result: ResultData | ProfileData) -> list[str]:
    """The fields as lines of a fenced block of JSON; no line in it can end the fence."""
    text = json.dumps(fields(result), indent=1, ensure_ascii=False, allow_nan=False)
    return ["```json", *text.split("\n"), "```"]


def plain(value: Any) -> Any:
    """A value with its text cut and cleaned, and its figures rounded."""
    if isinstance(value, Record):
        return plain(value.model_dump(by_alias=True))
    if isinstance(value, str):
        return wording.shown(value, MOST_TEXT)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {wording.shown(name, MOST_TEXT): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _common(result: Document) -> dict[str, Any]:
    fired = [f for f in result.findings if f.state in ("opportunity", "diagnostic")]
    baseline = result.baseline if isinstance(result, ResultData | ProfileData) else None
    return {
        "schema_version": result.schema_version,
        "advisor_version": result.advisor_version,
        "command": result.command,
        "target": {"path": result.target.path, "kind": result.target.kind},
        "baseline": None if baseline is None else baseline.model_dump(include=set(_OF_BASELINE)),
        "phases_ms": result.profile.phases_ms,
        "findings": [_chosen(finding, OF_FINDINGS) for finding in fired[:MOST_FINDINGS]],
        "findings_left_out": max(0, len(fired) - MOST_FINDINGS),
        "budget": result.budget,
    }


_OF_BASELINE = ("step_ms", "throughput", "peak_bytes")


def _of_search(result: ResultData) -> dict[str, Any]:
    found = result.recommendation
    failed = [trial for trial in result.trials if trial.state == "failed"]
    return {
        "objective": result.objective,
        "noise": result.noise,
        "recommendation": {
            "verdict": found.verdict,
            "speedup": found.speedup,
            "memory_ratio": found.memory_ratio,
            "numerics": found.numerics,
            "break_even_steps": found.break_even_steps,
            "reason": found.reason,
            "changes": [_chosen(change, OF_CHANGES) for change in found.changes[:MOST_CHANGES]],
            "changes_left_out": max(0, len(found.changes) - MOST_CHANGES),
        },
        "phases_after_ms": result.profile.phases_after_ms,
        "trials": _counted([trial.state for trial in result.trials]),
        "failures": _counted([trial.cause or "internal" for trial in failed]),
        "not_tried": len(result.not_tried),
        "apply": apply_command(result) if found.changes else None,
    }


def _chosen(record: Record, names: Sequence[str]) -> dict[str, Any]:
    whole = record.model_dump(by_alias=True)
    return {name: whole[name] for name in names}


def _counted(words: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))
