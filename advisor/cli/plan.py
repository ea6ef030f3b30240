"""What ``--dry-run`` says: what a run would do, without doing it."""

import json
from typing import Any

from advisor.errors import clean
from advisor.settings import Settings
from advisor.storage_url import StorageUrl

STAGES = (
    "run it unchanged",
    "search",
    "reduce",
    "compare the numbers",
    "confirm in fresh processes",
    "report",
)


def plan(settings: Settings, url: StorageUrl, *, as_json: bool) -> str:
    """What a run with these settings would do."""
    target = settings.target
    knobs = {
        name: "all choices" if chosen is None else ", ".join(str(value) for value in chosen)
        for name, chosen in settings.knobs.items()
    }
    facts: dict[str, Any] = {
        "target": target.name, "kind": target.kind, "arguments": list(target.args), "device": settings.device,
        "stages": list(STAGES), "budget_s": settings.budget_s, "trials": settings.trials,
        "objective": settings.objective, "knobs": knobs or "every knob that applies", "fixed": settings.fixed,
        "min_gain": settings.min_gain, "confidence": settings.confidence, "seed": settings.seed,
        "storage": str(url), "study": settings.study, "out": str(settings.out),
    }  # fmt: skip
    if as_json:
        return json.dumps({"dry_run": facts}, indent=2) + "\n"
    rows = [f"{name.replace('_', ' ') + ':':<12} {_plain(value)}" for name, value in facts.items()]
    return "\n".join([*(clean(row, 500) for row in rows), "Nothing was started or written."]) + "\n"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}={inner}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return "none" if value is None else str(value)
