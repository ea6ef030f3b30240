"""The events of a trace file, decoded a block at a time and gathered in columns."""

import json
import math
import operator
import types
from array import array
from collections import Counter
from functools import reduce
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.older_torch import OPERATOR, SINCE, renamed
from advisor.profiles.traces.trace import CATEGORIES, Trace, narrow

DETAILS = (
    "Concrete Inputs", "Input type", "Input Dims", "stream", "bytes", "Call stack", "Collective name",
    "dtype", "In msg nelems", "Out msg nelems", "Group size", "Process Group Name",
)  # fmt: skip
"""The arguments kept beside the links, in Kineto's order for speed; of equal texts one is parsed."""

LINKS = {"External id": 0, "correlation": 0, "Sequence number": -1, "Fwd thread id": 0}
"""The arguments that are numbers of an event's own, and what stands for none."""

OTHER_PHASES = "BEiICbneSTpFstfPNODMRcvV("
"""What Chrome's format has beside ``X``. A block with an event of an unknown phase is read the slow way."""

ABSENT = msgspec.Raw(b"")
_FORWARD_THREAD = 0
NO_DETAILS = b"{}"
COLUMNS = {"begin_us": "d", "duration_us": "d", "name": "i", "place": "i"}
"""And what holds them while they grow (``array``); they are narrowed in the end. A place is a category on a
thread of a process."""

OF_ARGUMENTS = {
    "correlation": ("q", 0), "external": ("q", 0), "sequence": ("q", -1), "recording": ("B", 1),
    "detail": ("i", 0),
}  # fmt: skip
"""Columns of what stands in arguments, with what stands for none; ``row`` says of which events."""

FUNCTION = "python_function"
"""Nine of ten events of a trace with Python's stack, whose arguments hold nothing that is read."""

UNREAD = ("mtia_ccp_events", "mtia_insight", "hpu_op")
"""Kineto's categories of devices other than those of CUDA, ROCm and SYCL, whose kernels are ``kernel``."""

_LIMIT = 2**63
Arguments: Any = msgspec.defstruct(
    "Arguments",
    [
        *((f"link_{position}", int, default) for position, default in enumerate(LINKS.values())),
        *((f"detail_{position}", msgspec.Raw, ABSENT) for position in range(len(DETAILS))),
    ],
    rename={f"link_{n}": name for n, name in enumerate(LINKS)}
    | {f"detail_{n}": name for n, name in enumerate(DETAILS)},
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
_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder().decode


class _Positions(dict[Any, int]):
    """Numbers keys in the order of their first appearance."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class Columns:
    """Takes events as they are read and becomes a trace."""

    def __init__(self) -> None:
        self._names = _Positions()
        self._places = _Positions()
        self._details = _Positions({NO_DETAILS: 0})
        codes = COLUMNS | {name: code for name, (code, _) in OF_ARGUMENTS.items()} | {"row": "i"}
        self._columns: dict[str, array[Any]] = {name: array(code) for name, code in codes.items()}
        self._halves = self._undated = self._negative = self._unlinked = self._unparsed = self._doubled = 0
        self._unread: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many events were taken, those that will be left out with them."""
        return len(self._columns["begin_us"])

    @property
    def events(self) -> int:
        """How many of them are kept."""
        return int(self._kept().sum())

    @property
    def recognised(self) -> bool:
        """Whether one of these is of a category that PyTorch writes."""
        place = np.frombuffer(self._columns["place"], np.intc)
        return bool(self._categories()[place[self._kept()]].any())

    def take(self, block: bytes) -> None:
        """Add the events of a JSON array.

        Raises:
            ValueError: It is no array of well-formed events; nothing was added.
            RecursionError: It is nested too deeply; nothing was added.
        """
        decoded = _decoder.decode(block)
        events = [event for event in decoded if type(event) is Complete]
        if len(events) < len(decoded):
            self._halves += sum(type(event) in _halves for event in decoded)
        if not events:
            return
        columns, names, places, taken = self._columns, self._names, self._places, len(self)
        arguments = [event.args or _without for event in events if event.cat != FUNCTION]
        columns["row"].fromlist([row for row, event in enumerate(events, taken) if event.cat != FUNCTION])
        columns["begin_us"].fromlist([event.ts for event in events])
        columns["duration_us"].fromlist([event.dur for event in events])
        columns["name"].fromlist([names[event.name] for event in events])
        columns["place"].fromlist([places[event.cat, event.pid, event.tid] for event in events])
        self._link("external", [each.link_0 for each in arguments])
        self._link("correlation", [each.link_1 for each in arguments])
        self._link("sequence", [each.link_2 for each in arguments], none=-1)
        columns["recording"].fromlist([each.link_3 == _FORWARD_THREAD for each in arguments])
        for each in arguments:
            each.link_0 = each.link_1 = each.link_3 = 0
            each.link_2 = -1  # what is left are the details
        details = self._details
        columns["detail"].fromlist([details[text] for text in _texts(arguments)])

    def _link(self, column: str, values: list[int], none: int = 0) -> None:
        try:
            self._columns[column].fromlist(values)
        except OverflowError:
            fitting = [value if -_LIMIT <= value < _LIMIT else none for value in values]
            self._unlinked += sum(a != b for a, b in zip(fitting, values, strict=True))
            self._columns[column].fromlist(fitting)

    def _kept(self) -> NDArray[np.bool_]:
        """Which events have a beginning and no negative time; the others are counted."""
        begin, duration = (np.frombuffer(self._columns[name]) for name in ("begin_us", "duration_us"))
        undated, negative = np.isnan(begin), (begin < 0) | (duration < 0)
        self._undated, self._negative = int(undated.sum()), int((negative & ~undated).sum())
        count = np.bincount(np.frombuffer(self._columns["place"], np.intc), minlength=len(self._places))
        self._unread = Counter()
        for (category, _, _), events in zip(self._places, count.tolist(), strict=True):
            if category in UNREAD:
                self._unread[category] += events
        return ~(undated | negative)

    def trace(self, info: dict[str, Any], notes: list[str], *, cut: bool = False) -> Trace:
        """All events, sorted by their beginning; of two that begin together the longer comes first.

        Of events that agree in everything one is kept, unless they have no duration.
        """
        order = np.flatnonzero(self._kept())
        begin, duration = (np.frombuffer(self._columns[name])[order] for name in ("begin_us", "duration_us"))
        order = order[_sorted(begin, duration)]
        del begin, duration
        columns = {name: self._argument(name)[order] for name in OF_ARGUMENTS}
        columns |= {name: self._column(name, order) for name in COLUMNS}
        place = columns.pop("place")
        columns["category"] = self._categories()[place]
        threads = _Positions()
        columns["thread"] = narrow(np.array([threads[str(pid), str(tid)] for _, pid, tid in self._places]))[
            place
        ]
        again = _again(columns)
        if len(again):
            self._doubled = len(again)
            columns = {name: np.delete(values, again) for name, values in columns.items()}
        names = list(self._names)
        if any(category == OPERATOR for category, _, _ in self._places):
            renamed(names, columns["name"], columns["category"])
        distributed = info.get("distributedInfo")
        rank = distributed.get("rank") if isinstance(distributed, dict) else None
        return Trace(
            names=names,
            **{name: values for name, values in columns.items() if name != "detail"},
            threads=list(threads),
            detail=columns["detail"] - 1,
            details=self._parsed_details(),
            rank=rank if type(rank) is int else None,
            info=info,
            notes=(*notes, *self.notes()),
            cut=cut,
        )

    def _column(self, name: str, order: NDArray[np.intp]) -> NDArray[Any]:
        """A column in its order, as narrow as its values allow; there may be millions of them."""
        taken = self._columns[name]
        values: NDArray[Any] = np.frombuffer(taken, taken.typecode)[order]
        self._columns[name] = array(taken.typecode)
        return narrow(values) if taken.typecode == "i" and len(values) else values

    def _argument(self, name: str) -> NDArray[Any]:
        """A column of what stands in arguments, for all events that were taken."""
        taken, (_, none) = self._columns[name], OF_ARGUMENTS[name]
        values: NDArray[Any] = np.frombuffer(taken, taken.typecode)
        if name == "recording":
            values = values.astype(np.bool_)
        elif len(values):
            values = narrow(values)
        self._columns[name] = array(taken.typecode)
        found = np.full(len(self), none, values.dtype)
        found[np.frombuffer(self._columns["row"], np.intc)] = values
        return found

    def _categories(self) -> NDArray[np.uint8]:
        """Of each place the position of its category."""
        return np.array([_category(category) for category, _, _ in self._places], np.uint8)

    def _parsed_details(self) -> list[dict[str, Any]]:
        """Each distinct set of details."""
        parsed = []
        for text in self._details:
            try:
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
        } | {f"event(s) of a device that is not read: {name}": count for name, count in self._unread.items()}
        return [counted(count, what) for what, count in counts.items() if count]


def _category(name: str) -> int:
    """The position of a category, by the name that a version of torch or a runtime gives it.

    Runtimes of other devices (``xpu_runtime``, ``mtia_runtime``, ...) count as that of CUDA: they launch.
    """
    known = SINCE.get(name, name)
    if known not in CATEGORIES:
        known = next((f"cuda{end}" for end in ("_runtime", "_driver") if name.endswith(end)), "other")
    return CATEGORIES.index(known)


def _texts(arguments: list[Any]) -> list[bytes]:
    """Each as JSON; all in one go, unless one of them is laid out over several lines."""
    texts = _encoder.encode_lines(arguments).split(b"\n")
    texts.pop()
    return texts if len(texts) == len(arguments) else [_encoder.encode(each) for each in arguments]


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
