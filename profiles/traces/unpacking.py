"""The bytes of a trace file, unpacked where it is compressed, a block at a time and no more than a limit."""

import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from advisor.base.errors import UsageError

BLOCK = 128 << 10
"""Larger ones leave the processor's cache, and the allocator gives pages back and takes them anew."""

MAX_BYTES = 4 << 30  # about 14 million events
GZIP = b"\x1f\x8b"
_PACKED = 64 << 10


def read_blocks(path: Path, notes: list[str]) -> Iterator[bytes]:
    """The content of a file, unpacked if it is a gzip file whatever its name is.

    Args:
        path: Of the file.
        notes: Gets a sentence if a gzip file is cut off or something follows it.

    Raises:
        UsageError: It cannot be read, is damaged, or holds more than ``MAX_BYTES``.
    """
    try:
        _check(path)
        with path.open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            yield from _unpacked(file, path, notes) if packed else iter(lambda: file.read(BLOCK), b"")
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def _check(path: Path) -> None:
    try:
        state = path.stat()
    except ValueError as error:  # a zero byte in the name
        raise _unreadable(path, str(error)) from error
    if stat.S_ISDIR(state.st_mode):
        raise _unreadable(path, "it is a directory")
    if not stat.S_ISREG(state.st_mode):
        raise _unreadable(path, "it is no regular file")
    if state.st_size > MAX_BYTES:
        raise _too_large(path)


def _unpacked(file: BinaryIO, path: Path, notes: list[str]) -> Iterator[bytes]:
    unpacker, rest, total = zlib.decompressobj(zlib.MAX_WBITS | 16), b"", 0
    while True:
        packed = rest or file.read(_PACKED)
        try:
            block = unpacker.decompress(packed, BLOCK)
        except zlib.error as error:
            cause = f"the gzip file is damaged before byte {file.tell():,}: {error}"
            raise _unreadable(path, cause) from None
        total += len(block)
        if total > MAX_BYTES:
            raise _too_large(path)
        if block:
            yield block
        rest = unpacker.unconsumed_tail
        if unpacker.eof:
            rest = unpacker.unused_data + file.read(_PACKED)
            if not rest.startswith(GZIP):
                if rest.strip(b"\0"):
                    notes.append("what follows the end of the gzip file was ignored")
                return
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif not packed:
            notes.append(f"the gzip file ends at byte {file.tell():,} before its content does")
            return


def _unreadable(path: Path, cause: str) -> UsageError:
    return UsageError("the trace cannot be read", where=str(path), cause=cause, hint="name a trace file")


def _too_large(path: Path) -> UsageError:
    return UsageError(
        f"the trace holds more than {MAX_BYTES >> 30} GiB",
        where=str(path),
        hint="record fewer steps, as with torch.profiler.schedule(wait=10, warmup=2, active=3)",
    )
