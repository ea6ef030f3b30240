"""Events of a trace that a strict reader refuses: bad bytes, NaN, Infinity, a file that is cut off."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from advisor.profiles.traces.decoding import DETAILS, LINKS, readable

NO_NUMBERS = "event(s) with nan or inf, taken as missing"
NO_DURATIONS = "event(s) without a usable duration, taken as 0 us"
NO_TEXTS = "event(s) with text that is not UTF-8, replaced"

_BETWEEN = re.compile(r"[\s,]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_OR_NAN = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?\b(?:nan|inf)\b', re.DOTALL)
_NEAR_END = 32  # a number, an escape or a word that is cut is reported at its beginning


@dataclass
class Mended:
    """What was found in a block.

    Attributes:
        events: Each event as JSON that a strict reader takes: as it stands where nothing is wrong with it,
            so that one given twice is known again, whichever way it was read.
        found: What was wrong, with the number of events.
        consumed: The bytes up to here need not be seen again.
        ended: The list of events ended here.
        broken: Why what follows cannot be read, though it is not cut off.
    """

    events: list[bytes] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    consumed: int = 0
    ended: bool = False
    broken: str = ""


def mend(block: bytes) -> Mended:
    """Read the events of a part of their list, which begins between two of them."""
    mended, text, at = Mended(), block.decode("utf-8", "surrogateescape"), 0
    constants: list[str] = []
    decoder = json.JSONDecoder(parse_constant=constants.append, strict=False)
    spelt = False
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if at == len(text):
            break
        if text[at] == "]":
            at, mended.ended = at + 1, True
            break
        constants.clear()
        begin = at
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if error.pos > len(text) - _NEAR_END or error.msg.startswith("Unterminated string"):
                break
            if spelt:
                mended.broken = error.msg
                break
            text, spelt = text[:at] + _STRING_OR_NAN.sub(_same_length, text[at:]), True
        except (ValueError, RecursionError) as error:  # thousands of digits, lists in lists in lists
            mended.broken = str(error)
            break
        else:
            if isinstance(value, dict):
                _keep(value, text[begin:at], mended, has_constants=bool(constants))
    mended.consumed = len(text[:at].encode("utf-8", "surrogateescape"))
    return mended


def _keep(event: dict[str, Any], original: str, mended: Mended, *, has_constants: bool) -> None:
    phase = event.get("ph")
    if phase != "X":
        mended.events += [json.dumps({"ph": phase}).encode()] if phase in ("B", "E") else []
        return
    text = json.dumps(_cleaned(event), ensure_ascii=False, allow_nan=False)
    plain = _SURROGATE.sub("\ufffd", text)
    mended.found[NO_TEXTS] += plain != text
    mended.found[NO_NUMBERS] += has_constants
    mended.found[NO_DURATIONS] += "dur" in event and _number(event["dur"]) is None
    spelt = original.encode("utf-8", "surrogateescape")
    sound = plain == text and not has_constants and readable(spelt)
    mended.events.append(spelt if sound else plain.encode())


def _same_length(match: re.Match[str]) -> str:
    found = match[0]
    return found if found[0] == '"' else "NaN".rjust(len(found))


def _cleaned(event: dict[str, Any]) -> dict[str, Any]:
    """The same event with every value of the kind that it should be; what cannot be is left out."""
    kept: dict[str, Any] = {"ph": "X"}
    kept |= {key: str(event[key]) for key in ("name", "cat", "pid", "tid") if event.get(key) is not None}
    kept |= {key: number for key in ("ts", "dur") if (number := _number(event.get(key))) is not None}
    arguments = event.get("args")
    if isinstance(arguments, dict):
        kept["args"] = {key: arguments[key] for key in DETAILS if key in arguments}
        kept["args"] |= {key: _link(arguments.get(key), none) for key, none in LINKS.items()}
    return kept


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _link(value: Any, none: int) -> int:
    number = _number(value)
    if number is None or not number.is_integer():
        return none
    return value if isinstance(value, int) else int(number)
