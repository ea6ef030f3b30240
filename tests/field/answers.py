"""Whether a profile says of a situation what an engineer who knows would say."""

import re
from pathlib import Path
from typing import Any

from programs import failed, fired, told
from situations import PROGRAMS, Situation

A_FIFTH = 0.2  # of the step, below which what is told of a repaired program may be the busy machine's


def complaint(situation: Situation, result: dict[str, Any]) -> str:
    """What is wrong with what a profile says of the situation; empty where nothing is.

    Args:
        result: ``result.json`` of ``advisor profile``.
    """
    if failed(result):
        return told(failed(result))
    found = fired(result)
    forbidden = [
        f"{finding['rule']} says what it must not: {text}"
        for finding in found
        for text in (finding["title"], finding["advice"])
        if any(re.search(each, text) for each in situation.never)
    ]
    if forbidden:
        return "\n".join(forbidden)
    if situation.harmless and any(
        finding["rule"] in situation.answers and re.search(situation.harmless, finding["title"])
        for finding in found
    ):
        return ""
    first = [finding for finding in found[: situation.among] if finding["rule"] in situation.answers]
    if not first:
        return f"{' or '.join(situation.answers)} is not first:\n{told(found)}"
    answer = first[0]
    text = f"{answer['title']} {answer['advice']}"
    missing = [each for each in situation.says if not re.search(each, text)]
    if missing:
        return f"{missing} not in: {text}"
    return _misplaced(situation, answer)


def spared(situation: Situation, result: dict[str, Any]) -> str:
    """What is told of the repaired program that is a fault of the other; empty where nothing is."""
    answers = [
        finding
        for finding in fired(result)
        if finding["rule"] in situation.answers
        and finding["kind"] != "headroom"
        and (finding["ceiling"] is None or finding["ceiling"]["low"] >= A_FIFTH)
    ]
    return told(failed(result) + answers) if failed(result) + answers else ""


def _misplaced(situation: Situation, answer: dict[str, Any]) -> str:
    if not situation.place:
        return ""
    place = answer["location"] or {"file": "", "line": 0}
    file = PROGRAMS / Path(place["file"]).name
    lines = file.read_text().splitlines() if file.is_file() else []
    line = lines[place["line"] - 1] if 0 < place["line"] <= len(lines) else ""
    return "" if situation.place in line else f"it names {place['file']}:{place['line']}: {line.strip()}"
