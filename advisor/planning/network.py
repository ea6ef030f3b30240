"""Networks by name: how many bytes a second a node sends."""

import re

from advisor.base.errors import UsageError, clean

NAMED = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)(Gb|GB)(?:/?p?s)?", re.IGNORECASE)
HINT = "a node's cards and their speed in Gbit/s, as in 100Gb or 8x400Gb; or measured"


def bytes_per_s(written: str) -> float | None:
    """What one node sends, in bytes a second; nothing for ``measured``, where the points alone tell.

    Raises:
        UsageError: It is not the name of a network.
    """
    if written == "measured":
        return None
    found = NAMED.fullmatch(written.strip())
    if found is None or float(found[2]) == 0:
        raise UsageError(f"{clean(written)} names no network", hint=HINT)
    per_byte = 1 if found[3] == "GB" else 8
    return int(found[1] or 1) * float(found[2]) * 1e9 / per_byte
