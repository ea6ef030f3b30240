"""Reads a trace that torch.profiler exported as Chrome's JSON, whole or broken, in blocks that stay small."""

import gc
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from advisor.base.errors import UsageError, clean
from advisor.profiles.traces.decoding import Columns, counted
from advisor.profiles.traces.mending import Mended, mend
from advisor.profiles.traces.trace import Trace
from advisor.profiles.traces.unpacking import read_blocks

MAX_EVENT = 16 << 20
"""Neither one event nor what stands before the events is ever near this size in bytes."""

MAX_EVENTS = 16_000_000
"""As many fill a file of the largest size; a small one with more was made to exhaust the memory."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_SPLIT = re.compile(rb"\}\s*(,)\s*\{")
_TRIES = 3  # ends of a block may lie within an event that holds objects, and so may "traceEvents"
_TAILS = (512, 16 << 10)  # where the last events of a block are searched before all of it is
_LAYOUT = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"
_HINT = 'export one with profiler.export_chrome_trace("trace.json")'


def read_trace(path: Path) -> Trace:
    """The events of a trace file, gzipped or not: an object with ``traceEvents``, or a bare list of events.

    Of a file that is cut off everything before that is read; ``notes`` of the trace say what was wrong.

    Raises:
        UsageError: It cannot be read, is broken, is no trace, or holds no event of PyTorch.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of objects that hold no cycle would be searched for some
    try:
        return _Reading(path).run()
    finally:
        if collecting:
            gc.enable()


class _Reading:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self.columns = Columns()
        self.info: dict[str, Any] = {}
        self.found: Counter[str] = Counter()
        self.bare = False
        self.read = 0
        self.blocks = self._counted(read_blocks(path, self.notes))

    def _counted(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.read += len(block)
            yield block

    def run(self) -> Trace:
        tail = self._read_events(self._read_head())
        self._finish(tail)
        self.notes += [counted(count, what) for what, count in self.found.items() if count]
        if not self.columns.recognised:
            trouble = [*self.notes, *self.columns.notes()]
            raise self._error(
                "the trace holds no event of PyTorch with a duration", "; ".join(trouble) or None
            )
        return self.columns.trace(self.info, self.notes, cut=tail is None)

    def _error(self, message: str, cause: str | None = None) -> UsageError:
        return UsageError(message, where=str(self.path), cause=cause, hint=_HINT)

    def _read_head(self) -> bytes:
        """Read what stands before the events; return the bytes from the first event on."""
        head, tried = b"", 0
        for block in self.blocks:
            head = (head + block).removeprefix(_MARK).lstrip(_LAYOUT)
            if head[:1] == b"[":
                self.bare = True
                return head[1:]
            if head[:1] not in (b"{", b""):
                raise self._error("the file is no JSON", f"it begins with {_shown(head[:20])}")
            for match in islice(_EVENTS.finditer(head, tried), _TRIES):
                tried = match.end()
                value = _value(head[: match.end()] + b"]}")
                if isinstance(value, dict):
                    self._inform(value)
                    return head[match.end() :]
            if len(head) > MAX_EVENT:
                break
        raise self._without_events(head)

    def _without_events(self, head: bytes) -> UsageError:
        if not head:
            return self._error("the file is empty", "; ".join(self.notes) or None)
        if len(head) > MAX_EVENT:
            return self._error("the file is no trace", f"no traceEvents in its first {len(head):,} bytes")
        try:
            value = json.loads(head)
        except (ValueError, RecursionError) as error:
            return self._error("the file is no JSON", "; ".join([*self.notes, str(error)]))
        if "traceEvents" in value:
            return self._error("the file is no trace", "its traceEvents are no list")
        cause = "it has no traceEvents"
        if "nodes" in value and "schema" in value:
            cause = "it is a graph of operators, as ExecutionTraceObserver writes it, without their times"
        return self._error("the file is no trace", cause)

    def _read_events(self, buffer: bytes) -> bytes | None:
        """Read to the end of the list of events; return what follows it, or nothing if it is cut off."""
        enough = 0  # a buffer that led nowhere is tried again when it has doubled
        while True:
            block = next(self.blocks, None)
            if block is not None:
                buffer += block
                if len(buffer) < enough:
                    continue
            rest = self._take_well_formed(buffer)
            if len(rest) == len(buffer):
                mended = self._mend(buffer)
                rest = buffer[mended.consumed :]
                if mended.ended:
                    return rest
                if mended.broken or len(rest) > MAX_EVENT:
                    reason = mended.broken or f"an event of more than {MAX_EVENT >> 20} MiB"
                    raise self._error("the trace is broken", f"{reason}, {self._place(len(rest))}")
            if block is None and len(rest.strip(_LAYOUT + b",")) == len(buffer.strip(_LAYOUT + b",")):
                self.notes.append(f"the list of events ends {self._place(len(rest))}")
                return None
            enough = 2 * len(rest) if len(rest) == len(buffer) else 0
            buffer = rest
            if len(self.columns) > MAX_EVENTS:
                raise self._error(f"the trace holds more than {MAX_EVENTS:,} events")

    def _take_well_formed(self, buffer: bytes) -> bytes:
        """Read the events that are complete; return the rest, or all if they cannot be read at once."""
        for split in islice(_splits(buffer), _TRIES):
            try:
                self.columns.take(b"".join((b"[", memoryview(buffer)[: split.start(1)], b"]")))
            except (ValueError, RecursionError):
                continue
            return buffer[split.end(1) :]
        return buffer

    def _mend(self, buffer: bytes) -> Mended:
        mended = mend(buffer)
        self.found += mended.found
        try:
            self.columns.take(b"[" + b",".join(mended.events) + b"]")
        except (ValueError, RecursionError) as error:  # another reader of JSON bears less nesting
            mended.broken = str(error)
        return mended

    def _place(self, unread: int) -> str:
        return f"at byte {self.read - unread:,}, after {counted(self.columns.events, 'event(s)')}"

    def _finish(self, tail: bytes | None) -> None:
        """Read what stands behind the events, if their list ended."""
        if tail is None:
            return
        for block in self.blocks:
            tail += block
            if len(tail) > MAX_EVENT:
                break
        if not self.bare:
            found = _first_value(b'{"":0' + tail)
            if found is None:
                self.notes.append("what stands behind the events could not be read")
                return
            value, tail = found
            self._inform({key: each for key, each in value.items() if key})
        if tail.strip(_LAYOUT + b"\0"):
            self.notes.append("what follows the end of the trace was ignored")

    def _inform(self, value: dict[str, Any]) -> None:
        if value.pop("traceEvents", None):
            self.notes.append("a second list of events was ignored")
        self.info |= value


def _splits(buffer: bytes) -> Iterator[re.Match[bytes]]:
    """Where one event may end and another begin, from the last place on."""
    known = len(buffer)
    for tail in (*_TAILS, len(buffer)):
        for split in reversed(list(_SPLIT.finditer(buffer, max(0, len(buffer) - tail)))):
            if split.start() < known:
                known = split.start()
                yield split


def _value(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _first_value(text: bytes) -> tuple[Any, bytes] | None:
    """The first value of a text and what follows it."""
    decoded = text.decode("utf-8", "surrogateescape")
    try:
        value, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return None
    return value, decoded[end:].encode("utf-8", "surrogateescape")


def _shown(text: bytes) -> str:
    return repr(clean(text.decode("utf-8", "backslashreplace")))
