"""How much memory a long list of Python objects takes, by a sample of its entries."""

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

LONG = 10_000  # entries; fewer are no matter for memory
SAMPLED = 200  # of them
DEPTH = 3  # of containers in containers: a row that holds a list of words
SHARED_INTS = range(-5, 257)  # of which Python keeps one object each


def objects_bytes(thing: Any) -> int:
    """Bytes of all objects that a long list, tuple or dict holds, about; 0 of anything else.

    Numbers of one array or tensor are no objects. No code of the program is run.
    """
    if type(thing) not in (list, tuple, dict) or len(thing) < LONG:
        return 0
    few: Iterable[Any] = (
        islice(thing.items(), SAMPLED) if type(thing) is dict else thing[:: len(thing) // SAMPLED]
    )
    sample = [_deep(entry, DEPTH) for entry in few]
    return int(sum(sample) / len(sample) * len(thing))


def _deep(thing: Any, depth: int) -> int:
    kind = type(thing)
    if thing is None or kind is bool or (kind is int and thing in SHARED_INTS):
        return 0
    if kind in (int, float, complex, str, bytes):
        return sys.getsizeof(thing)
    if kind not in (list, tuple, dict):
        return object.__sizeof__(thing)
    inside: Iterable[Any] = [*thing.keys(), *thing.values()] if kind is dict else thing
    return sys.getsizeof(thing) + (sum(_deep(each, depth - 1) for each in inside) if depth else 0)
