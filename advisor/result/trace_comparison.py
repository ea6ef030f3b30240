"""Two traces side by side; the document that ``compare --format json`` prints of them.

Its fields:

``schema_version``, ``advisor_version``
    As in every document of advisor.
``a``, ``b``
    Each trace: ``name`` as given, the ``device`` that it names, the number of ``steps``, how long one takes
    (``step_ms``) and ``notes`` of its reading.
``step_ratio``
    Time of a step in B over A (below 1, B is faster), or ``null`` where one of them is zero. Each is one
    recording, so there is no interval.
``device``, ``idle``, ``host``, ``kinds``
    What makes the difference, per step: parts of the device's time, of its idle time by cause, of the host's
    time, of the kernels' by what they do.
``operators``, ``kernels``
    The same for single ones, those with the largest difference first: ``name``, ``of`` (the phase of an
    operator, the operator of a kernel), ``location``, ``a_calls``, ``b_calls``, ``a_ms``, ``b_ms`` and
    ``difference_ms`` (B less A). What stands in one trace alone has ``null`` for the other. ``others_ms`` is
    the difference of those that are not listed.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import ClassVar, Protocol, TypeVar

from pydantic import Field

from advisor.profiles.facts.observed import Location
from advisor.result.document import Finite
from advisor.result.header import Header, Record

MOST = 40  # of operators, and of kernels


class TraceSide(Record):
    """One of the two traces."""

    name: str
    device: str = ""
    steps: int
    step_ms: Finite
    notes: list[str] = Field(default_factory=list)


class Difference(Record):
    """Milliseconds of one step that something takes in both; ``None`` where it does not occur."""

    name: str
    of: str = ""
    location: str | None = None
    a_calls: Finite | None = None
    b_calls: Finite | None = None
    a_ms: Finite | None = None
    b_ms: Finite | None = None
    difference_ms: Finite


class Differences(Record):
    """The largest of many."""

    largest: list[Difference] = Field(default_factory=list)
    others_ms: Finite = 0.0


class TraceComparison(Header):
    """What ``compare`` found in two traces."""

    ascii_only: ClassVar[bool] = True

    a: TraceSide
    b: TraceSide
    step_ratio: Finite | None = None
    device: list[Difference] = Field(default_factory=list)
    idle: list[Difference] = Field(default_factory=list)
    host: list[Difference] = Field(default_factory=list)
    kinds: list[Difference] = Field(default_factory=list)
    operators: Differences = Field(default_factory=Differences)
    kernels: Differences = Field(default_factory=Differences)


class Timed(Protocol):
    """Something that takes time at a place."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def location(self) -> Location | None:
        """From where it was called."""

    @property
    def calls(self) -> float:
        """How often, per step."""


Anything = TypeVar("Anything", bound=Timed)


def of_parts(a: Mapping[str, float], b: Mapping[str, float]) -> list[Difference]:
    """Parts of a step, the largest difference first; what takes no time in either is left out."""
    found = [
        Difference(
            name=name, a_ms=a.get(name), b_ms=b.get(name), difference_ms=b.get(name, 0.0) - a.get(name, 0.0)
        )
        for name in dict.fromkeys((*a, *b))
        if a.get(name) or b.get(name)
    ]
    return sorted(found, key=lambda each: -abs(each.difference_ms))


def of_each(
    a: Iterable[Anything],
    b: Iterable[Anything],
    of: Callable[[Anything], str],
    ms: Callable[[Anything], float],
) -> Differences:
    """Operators or kernels, the largest difference first.

    They are the same in both by name, by ``of``, and by file and function of their place: its line moves when
    something above it changes, and its folder from machine to machine.
    """
    sides = [_added(each, of, ms) for each in (a, b)]
    found = [
        _difference(key, *(side.get(key) for side in sides)) for key in dict.fromkeys((*sides[0], *sides[1]))
    ]
    found.sort(key=lambda each: -abs(each.difference_ms))
    return Differences(largest=found[:MOST], others_ms=sum(each.difference_ms for each in found[MOST:]))


Key = tuple[str, str, str, str]
Sum = tuple[float, float, Location | None]


def _added(
    each: Iterable[Anything], of: Callable[[Anything], str], ms: Callable[[Anything], float]
) -> dict[Key, Sum]:
    found: dict[Key, Sum] = {}
    for one in each:
        place = one.location
        where = (PurePath(place.file).name, place.function) if place else ("", "")
        key = (one.name, of(one), *where)
        calls, spent, first = found.get(key, (0.0, 0.0, place))
        found[key] = (calls + one.calls, spent + ms(one), first)
    return found


def _difference(key: Key, a: Sum | None, b: Sum | None) -> Difference:
    place = next((side[2] for side in (b, a) if side is not None and side[2] is not None), None)
    return Difference(
        name=key[0],
        of=key[1],
        location=None if place is None else str(place),
        a_calls=None if a is None else a[0],
        b_calls=None if b is None else b[0],
        a_ms=None if a is None else a[1],
        b_ms=None if b is None else b[1],
        difference_ms=(b[1] if b else 0.0) - (a[1] if a else 0.0),
    )
