"""What ``--dry-run`` says: what a run would do, start and write, without doing it."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.base.errors import clean
from advisor.base.settings import Settings, TargetRequest
from advisor.storage.storage_url import StorageUrl

STAGES = (
    "run it unchanged",
    "search",
    "reduce",
    "compare the numbers",
    "confirm in fresh processes",
    "report",
)
FILES = ("report.html", "result.json", "report.md", "changes.patch")
SHOWN = 500


def plan(settings: Settings, url: StorageUrl, *, as_json: bool) -> str:
    """What a search with these settings would do."""
    target, out = settings.target, settings.out
    knobs = {
        name: "all choices" if chosen is None else ", ".join(str(value) for value in chosen)
        for name, chosen in settings.knobs.items()
    }
    facts: dict[str, Any] = {
        "target": target.name, "kind": target.kind, "arguments": list(target.args), "device": settings.device,
        "stages": list(STAGES), "budget_s": settings.budget_s, "trials": settings.trials,
        "objective": settings.objective, "knobs": knobs or "every knob that applies", "fixed": settings.fixed,
        "not_tried": _not_tried(settings),
        "min_gain": settings.min_gain, "max_loss": settings.max_loss,
        "latency_limit_s": settings.latency_limit_s,
        "confidence": settings.confidence, "seed": settings.seed,
        "storage": str(url), "study": settings.study, "out": str(out), "starts": starts(target),
        "writes": [*written(out, FILES), *([] if url.in_memory else [url.shown])],
    }  # fmt: skip
    return told(facts, as_json=as_json)


def told(facts: Mapping[str, Any], *, as_json: bool) -> str:
    """Facts about a run as lines, or as one document."""
    if as_json:
        return json.dumps({"dry_run": facts}, indent=2) + "\n"
    lines = []
    for name, value in facts.items():
        label = f"{name.replace('_', ' ')}:"
        if name == "not_tried":
            lines += [label, *(f"  {knob}: {reason}" for knob, reason in value.items())] if value else []
        else:
            lines.append(f"{label:<12} {_plain(value)}")
    return "\n".join([*(_clean(line) for line in lines), "Nothing was started or written."]) + "\n"


def starts(target: TargetRequest) -> str:
    """The program as it is started, many times over, in processes of its own."""
    words = {"exec": [target.name], "module": ["python", "-m", target.name]}
    return shlex.join([*words.get(target.kind, ["python", target.name]), *target.args])


def written(folder: Path | None, names: tuple[str, ...]) -> list[str]:
    """The files of a report in its folder."""
    return [] if folder is None else [str(folder / name) for name in names]


def _not_tried(settings: Settings) -> dict[str, str]:
    """Knobs that are left out whatever the program turns out to be, with the reason."""
    from advisor.tuners.knobs import KNOBS
    from advisor.tuners.space.space import NEED_BATCH

    reasons = {}
    for name, knob in KNOBS.items():
        if name in settings.fixed:
            reasons[name] = f"fixed to {settings.fixed[name]}"
        elif settings.knobs and name not in settings.knobs:
            reasons[name] = "not named by --knob"
        elif settings.keep_batch and name in NEED_BATCH:
            reasons[name] = "--keep-batch"
        elif knob.named_only and name not in settings.knobs:
            reasons[name] = "only when named"
    return reasons


def _clean(line: str) -> str:
    """A line of text with its depth."""
    depth = len(line) - len(line.lstrip(" "))
    return " " * depth + clean(line.lstrip(" "), SHOWN)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}={inner}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return "none" if value is None else str(value)
