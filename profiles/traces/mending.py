"""Broken JSON of a trace, event by event: what can be understood is written anew, the rest is skipped."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from advisor.profiles.traces.decoding import DETAILS

SKIPPED = "event(s) skipped: not readable"
NO_NUMBERS = "event(s) with nan or inf, taken as missing"
NO_DURATIONS = "event(s) without a usable duration, taken as 0 us"
NO_TEXTS = "event(s) with text that is not UTF-8, replaced"

WINDOW = 256 << 10  # as much is searched for the end of an event that holds the like of another's beginning
FAILURE = 2000  # reading in vain costs as much as so many characters, beside those that were read

_LAYOUT = re.compile(r"[\s,]*")
_START = re.compile(r',\s*(?=\{\s*")')
_LIST_END = re.compile(r'\}\s*(?=\]\s*(?:,\s*"|\}|$))')
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_OR_NAN = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?\b(?:nan|inf)\b', re.DOTALL)
_NEAR_END = 32  # a number, an escape or a word that is cut is reported at its beginning


@dataclass
class Mended:
    """What was found in a block.

    Attributes:
        events: Each event as JSON that a strict reader takes.
        found: What was wrong, with the number of events.
        consumed: The bytes up to here need not be seen again.
        state: Whether the list of events goes on, ended here, was cut off here, or cannot be followed.
        lost: The next block begins within an event that cannot be read.
        wasted: How many characters were read in vain.
    """

    events: list[bytes]
    found: Counter[str]
    consumed: int
    state: Literal["more", "ended", "cut", "hopeless"]
    lost: bool
    wasted: int


def mend(block: bytes, *, lost: bool, last: bool, patience: int) -> Mended:
    """Read what can be read of a part of the list of events.

    Args:
        block: Begins between two events, or anywhere if ``lost``.
        lost: As the block before left it.
        last: No more bytes follow, so what is incomplete remains so.
        patience: As many characters may be read in vain.
    """
    mending = _Mending(block.decode("utf-8", "surrogateescape"), lost, last, patience)
    at, state = mending.run()
    consumed = len(mending.text[:at].encode("utf-8", "surrogateescape"))
    return Mended(mending.events, mending.found, consumed, state, mending.lost, mending.wasted)


class _Mending:
    def __init__(self, text: str, lost: bool, last: bool, patience: int) -> None:
        self.text = text
        self.lost = lost
        self.last = last
        self.patience = patience
        self.wasted = 0
        self.events: list[bytes] = []
        self.found: Counter[str] = Counter()
        self.constants = self.cut = False
        self.decoder = json.JSONDecoder(parse_constant=self._constant)

    def run(self) -> tuple[int, Literal["more", "ended", "cut", "hopeless"]]:
        """How far it came, and why it stopped there."""
        text, at = self.text, 0
        open_end: Literal["cut", "more"] = "cut" if self.last else "more"
        following = _START.search(text)
        while True:
            at = _behind(_LAYOUT, text, at)
            if following and following.start() < at:
                following = _START.search(text, at)
            if at == len(text):
                return at, open_end
            if text[at] == "]" and (not self.lost or (self.last and not following)):
                return at + 1, "ended"
            if self.wasted > self.patience:
                return at, "hopeless"
            end = self._event(at, following.start() if following else None)
            if end is not None:
                at = end
                continue
            if following is None and self.last:
                following = _LIST_END.search(text, at)
            if following is None or (self.cut and not self.last and len(text) - at < WINDOW):
                return at, open_end
            if not self.lost or '"ph"' in text[at : following.start()]:
                self.found[SKIPPED] += 1
            at, self.lost = following.end(), True

    def _event(self, at: int, following: int | None) -> int | None:
        """Keep the event that begins here and tell where it ends, if it can be understood."""
        found = self._decoded(self.text, at) if following is None else self._decoded(self.text[at:following])
        if found is None:
            segment = self.text[at:following]
            spelt = _STRING_OR_NAN.sub(_same_length, segment)
            found = self._decoded(spelt) if spelt != segment else None
        if found is None and following is not None:
            found = self._decoded(self.text[at : at + WINDOW])
        if found is None:
            return None
        value, length = found
        if isinstance(value, dict) and ("ph" in value or not self.lost):
            self.lost = False
            self._keep(value)
        if not (isinstance(value, dict) and "ph" in value):
            self.wasted += FAILURE
        return at + length

    def _decoded(self, text: str, at: int = 0) -> tuple[Any, int] | None:
        """The value that begins here and its length."""
        self.constants = self.cut = False
        try:
            value, end = self.decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            self.wasted += error.pos - at + FAILURE
            self.cut = error.pos > len(text) - _NEAR_END or error.msg.startswith("Unterminated string")
            return None
        except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
            self.wasted += WINDOW // 8
            return None
        return value, end - at

    def _constant(self, _: str) -> None:
        self.constants = True

    def _keep(self, event: dict[str, Any]) -> None:
        phase = event.get("ph")
        if phase != "X":
            self.events += [json.dumps({"ph": phase}).encode()] if phase in ("B", "E") else []
            return
        try:
            text = json.dumps(_cleaned(event), ensure_ascii=False, allow_nan=False)
        except (ValueError, RecursionError):
            self.found[SKIPPED] += 1
            return
        plain = _SURROGATE.sub("\ufffd", text)
        self.found[NO_TEXTS] += plain != text
        self.found[NO_NUMBERS] += self.constants
        self.found[NO_DURATIONS] += "dur" in event and _number(event["dur"]) is None
        self.events.append(plain.encode())


def _same_length(match: re.Match[str]) -> str:
    found = match[0]
    return found if found[0] == '"' else "NaN".rjust(len(found))


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _cleaned(event: dict[str, Any]) -> dict[str, Any]:
    """The same event with every value of the kind that it should be; what cannot be is left out."""
    kept: dict[str, Any] = {"ph": "X"}
    kept |= {key: str(event[key]) for key in ("name", "cat", "pid", "tid") if event.get(key) is not None}
    kept |= {key: number for key in ("ts", "dur") if (number := _number(event.get(key))) is not None}
    arguments = event.get("args")
    if isinstance(arguments, dict):
        kept["args"] = {key: arguments[key] for key in DETAILS if key in arguments}
        kept["args"] |= {key: _link(arguments.get(key)) for key in ("External id", "correlation")}
    return kept


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _link(value: Any) -> int:
    number = _number(value)
    if number is None or not number.is_integer():
        return 0
    return value if isinstance(value, int) else int(number)
