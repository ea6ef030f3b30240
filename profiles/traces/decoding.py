"""The events of a trace file, decoded a block at a time and gathered in columns."""

import json
import math
import operator
import types
from functools import reduce
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import CATEGORIES, Trace

DETAILS = (
    "Concrete Inputs", "Input type", "Input Dims", "stream", "bytes", "Call stack", "Collective name",
    "dtype", "In msg nelems", "Out msg nelems", "Group size", "Process Group Name", "Sequence number",
    "Fwd thread id",
)  # fmt: skip
"""The arguments kept beside the links, in Kineto's order for speed; of equal texts one is parsed."""

COUNTED = b'"Sequence number":'
"""From here on the details of an operator are its own; what stands before it, many operators share."""

OTHER_PHASES = "BEiICbneSTpFstfPNODMRcvV("
"""What Chrome's format has beside ``X``. A block with an event of an unknown phase is read the slow way."""

ABSENT = msgspec.Raw(b"")
NO_DETAILS = b"{}"
COLUMNS = ("begin_us", "duration_us", "name", "category", "thread", "correlation", "external", "detail")
_LIMIT = 2**63

Arguments: Any = msgspec.defstruct(
    "Arguments",
    [
        ("external", int, 0),
        ("correlation", int, 0),
        *((f"detail_{position}", msgspec.Raw, ABSENT) for position in range(len(DETAILS))),
    ],
    rename={"external": "External id", **{f"detail_{n}": name for n, name in enumerate(DETAILS)}},
    omit_defaults=True,
    gc=False,
)


class Complete(msgspec.Struct, tag_field="ph", tag="X", gc=False):
    """An event with a duration, as far as it is read."""

    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = math.nan
    dur: float = 0.0
    args: Arguments | None = None


_others = {
    phase: msgspec.defstruct("Other", [], tag_field="ph", tag=phase, gc=False) for phase in OTHER_PHASES
}
_any_phase = reduce(operator.or_, _others.values(), Complete)
_decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(types.GenericAlias(list, (_any_phase,)))
_halves = (_others["B"], _others["E"])
_without = Arguments()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Positions(dict[Any, int]):
    """Numbers keys in the order of their first appearance."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class _Threads(dict[int | str, "_ThreadsOf"]):
    """Numbers the threads of processes; a number and the same number as text are one thread."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = _Positions()

    def __missing__(self, pid: int | str) -> "_ThreadsOf":
        threads = self[pid] = _ThreadsOf(str(pid), self.texts)
        return threads


class _ThreadsOf(dict[int | str, int]):
    """Numbers of the threads of one process."""

    def __init__(self, pid: str, texts: _Positions) -> None:
        super().__init__()
        self._pid = pid
        self._texts = texts

    def __missing__(self, tid: int | str) -> int:
        number = self[tid] = self._texts[self._pid, str(tid)]
        return number


class _Categories(dict[str, int]):
    """Positions of the known categories; unknown ones are ``other``."""

    def __missing__(self, key: str) -> int:
        return 0


class Columns:
    """Takes events as they are read and becomes a trace.

    Attributes:
        events: How many were kept.
        recognised: One of them is of a category that PyTorch writes.
    """

    def __init__(self) -> None:
        self.events = 0
        self.recognised = False
        self._names = _Positions()
        self._threads = _Threads()
        self._categories = _Categories({name: position for position, name in enumerate(CATEGORIES)})
        self._details = _Positions({NO_DETAILS: 0})
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._halves = self._undated = self._negative = self._unlinked = self._unparsed = self._doubled = 0

    def take(self, block: bytes) -> None:
        """Add the events of a JSON array.

        Raises:
            ValueError: It is no array of well-formed events; nothing was added.
            RecursionError: It is nested too deeply; nothing was added.
        """
        decoded = _decoder.decode(block)
        kinds = list(map(type, decoded))
        events = [event for event, kind in zip(decoded, kinds, strict=True) if kind is Complete]
        self._halves += sum(map(kinds.count, _halves))
        if not events:
            return
        arguments = [event.args or _without for event in events]
        names, categories, threads, details = self._names, self._categories, self._threads, self._details
        part: dict[str, NDArray[Any]] = {
            "begin_us": np.array([event.ts for event in events], np.float64),
            "duration_us": np.array([event.dur for event in events], np.float64),
            "name": np.array([names[event.name] for event in events], np.int32),
            "category": np.array([categories[event.cat] for event in events], np.uint8),
            "thread": np.array([threads[event.pid][event.tid] for event in events], np.int32),
            "correlation": self._links([each.correlation for each in arguments]),
            "external": self._links([each.external for each in arguments]),
        }
        for each in arguments:
            each.correlation = each.external = 0  # what is left are the details
        part["detail"] = np.array([details[_encode(each)] for each in arguments], np.int32)
        self._keep(part)

    def _links(self, values: list[int]) -> NDArray[np.int64]:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            fitting = [value if -_LIMIT <= value < _LIMIT else 0 for value in values]
            self._unlinked += sum(a != b for a, b in zip(fitting, values, strict=True))
            return np.array(fitting, np.int64)

    def _keep(self, part: dict[str, NDArray[Any]]) -> None:
        begin, duration = part["begin_us"], part["duration_us"]
        undated, negative = np.isnan(begin), (begin < 0) | (duration < 0)
        if undated.any() or negative.any():
            self._undated += int(undated.sum())
            self._negative += int((negative & ~undated).sum())
            part = {column: values[~(undated | negative)] for column, values in part.items()}
        self.events += len(part["begin_us"])
        self.recognised |= bool(part["category"].any())
        self._parts.append(part)

    def trace(self, info: dict[str, Any], notes: list[str], *, cut: bool = False) -> Trace:
        """All events, sorted by their beginning; of two that begin together the longer comes first.

        Of events that agree in everything one is kept, unless they have no duration.
        """
        columns = {name: self._column(name) for name in COLUMNS}
        order = _sorted(columns["begin_us"], columns["duration_us"])
        for name in COLUMNS:  # one at a time: there may be millions of events
            columns[name] = columns[name][order]
        again = _again(columns)
        if len(again):
            self._doubled = len(again)
            columns = {name: np.delete(values, again) for name, values in columns.items()}
        distributed = info.get("distributedInfo")
        rank = distributed.get("rank") if isinstance(distributed, dict) else None
        return Trace(
            names=list(self._names),
            **{name: values for name, values in columns.items() if name != "detail"},
            threads=list(self._threads.texts),
            detail=columns["detail"] - np.int32(1),
            details=self._parsed_details(),
            rank=rank if type(rank) is int else None,
            info=info,
            notes=(*notes, *self.notes()),
            cut=cut,
        )

    def _column(self, name: str) -> NDArray[Any]:
        return np.concatenate([part.pop(name) for part in self._parts])

    def _parsed_details(self) -> list[dict[str, Any]]:
        """Each distinct set of details; what operators share beside their numbers is parsed once."""
        shared: dict[bytes, dict[str, Any]] = {}
        parsed = []
        for text in self._details:
            base, marked, numbers = text.rpartition(COUNTED)
            try:
                if marked:
                    base = base.rstrip(b",") + b"}"
                    if base not in shared:
                        shared[base] = _parsed(base)
                    parsed.append(shared[base] | _parsed(b"{" + marked + numbers))
                else:
                    parsed.append(_parsed(text))
            except (ValueError, RecursionError):  # thousands of digits, lists in lists in lists
                parsed.append({})
                self._unparsed += 1
        return parsed[1:]  # the first stands for "no details"

    def notes(self) -> list[str]:
        """What was wrong with the events."""
        counts = {
            "half event(s) skipped: B and E instead of X": self._halves,
            "event(s) skipped: no time": self._undated,
            "event(s) skipped: negative time": self._negative,
            "link(s) beyond 64 bits dropped": self._unlinked,
            "event(s) skipped: given twice": self._doubled,
            "set(s) of arguments not readable": self._unparsed,
        }
        return [counted(count, what) for what, count in counts.items() if count]


def readable(event: bytes) -> bool:
    """Whether ``Columns`` take an event as it stands, details included."""
    try:
        _decoder.decode(b"".join((b"[", event, b"]")))
        _decode(event)
    except (ValueError, RecursionError):
        return False
    return True


def counted(count: int, what: str) -> str:
    """A number and its noun, of which ``(s)`` marks the plural."""
    return f"{count:,} {what.replace('(s)', '' if count == 1 else 's')}"


def _sorted(begin: NDArray[np.float64], duration: NDArray[np.float64]) -> NDArray[np.intp]:
    """Positions by beginning, and by falling duration where several begin together.

    Files are nearly sorted, which a stable sort uses; so the second key is applied to the ties alone.
    """
    order = np.argsort(begin, kind="stable")
    ordered = begin[order]
    equal = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), np.bool_)  # np.union1d imports numpy.ma, 10 ms
    tied[1:] |= equal
    tied[:-1] |= equal
    chosen = order[tied]
    order[tied] = chosen[np.lexsort((-duration[chosen], begin[chosen]))]
    return order


def _again(columns: dict[str, NDArray[Any]]) -> NDArray[np.intp]:
    """Positions of sorted events that agree in everything with one before them; they last equally long."""
    begin, duration = columns["begin_us"], columns["duration_us"]
    equal = (begin[1:] == begin[:-1]) & (duration[1:] == duration[:-1]) & (duration[1:] > 0)
    if not equal.any():
        return np.empty(0, np.intp)
    close = np.zeros(len(begin), np.bool_)
    close[1:] |= equal
    close[:-1] |= equal
    places = np.flatnonzero(close)
    keys = [values[places] for values in columns.values()]
    ranked = np.lexsort(keys)
    same = np.ones(len(places) - 1, np.bool_)
    for key in keys:
        same &= key[ranked[1:]] == key[ranked[:-1]]
    return places[ranked[1:][same]]


def _parsed(text: bytes) -> dict[str, Any]:
    value: dict[str, Any]
    try:
        value = _decode(text)
    except ValueError:  # it is stricter with numbers and texts
        value = json.loads(text.decode("utf-8", "replace"))
    return value
