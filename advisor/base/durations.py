"""Spans of time as a person writes them: ``10s``, ``10m``, ``2h``."""

import math
import re

from advisor.base.errors import UsageError, clean

OF_REQUESTS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MAX_S = 30 * 24 * 3600.0
FORMS = "`10s`, `10m` or `2h`"

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([^\W\d]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds, from a number with a unit; several may follow each other (``1h30m``).

    Raises:
        UsageError: No unit, an unknown one, or not more than zero.
    """
    shown = clean(text.strip(), 60)
    parts = _parts(text.strip())
    if parts is None:
        raise UsageError(f"'{shown}' is not a span of time", hint=FORMS)
    if any(unit == "" for _, unit in parts):
        raise UsageError(f"no unit in '{shown}'", hint=FORMS)
    unknown = [unit for _, unit in parts if unit not in SECONDS]
    if unknown:
        raise UsageError(f"'{clean(unknown[0], 60)}' in '{shown}' is not a unit of time", hint=FORMS)
    seconds = sum(number * SECONDS[unit] for number, unit in parts)
    if not seconds > 0 or not math.isfinite(seconds):
        raise UsageError("the budget must be positive", hint="`--budget 10m`")
    if seconds > MAX_S:
        raise UsageError(f"'{shown}' is more than 30 days", hint=FORMS)
    return seconds


def parse_latency(text: str) -> float:
    """Seconds, from one number with a unit: ``20ms``, ``0.5s``.

    Raises:
        UsageError: No unit, an unknown one, or not more than zero.
    """
    shown, parts, hint = clean(text.strip(), 60), _parts(text.strip()), "`20ms` or `0.5s`"
    if parts is None or len(parts) != 1 or parts[0][1] not in OF_REQUESTS:
        raise UsageError(f"'{shown}' is not a time of a request", hint=hint)
    seconds = parts[0][0] * OF_REQUESTS[parts[0][1]]
    if not 0 < seconds < math.inf:
        raise UsageError("a latency limit is more than zero", hint=hint)
    return seconds


def write_latency(seconds: float) -> str:
    """A time of a request with three digits: ``18.2 ms``, ``2 s``."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def write_rate(per_s: float) -> str:
    """Requests per second with three digits at least: ``31.2 requests/s``."""
    return f"{per_s:,.0f} requests/s" if per_s >= 100 else f"{per_s:.3g} requests/s"


def write_duration(seconds: float) -> str:
    """A span in its largest fitting unit, rounded: ``45 s``, ``4 min``, ``1.5 h``."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def as_option(seconds: float) -> str:
    """A span as ``--budget`` takes it, with two digits: ``45s``, ``4m``, ``1.5h``."""
    for unit, least in (("h", 6000.0), ("m", 60.0)):
        if seconds >= least:
            return f"{seconds / SECONDS[unit]:.2g}{unit}"
    return f"{max(seconds, 0):.2g}s"


def _parts(text: str) -> list[tuple[float, str]] | None:
    """Numbers with their units in order; ``None`` when there is anything else."""
    parts: list[tuple[float, str]] = []
    position = 0
    while position < len(text):
        found = _FORM.match(text, position)
        if found is None or len(found[1]) > 30:
            return None
        parts.append((float(found[1]), found[2]))
        position = found.end()
        while text[position : position + 1] == " ":
            position += 1
    return parts or None
