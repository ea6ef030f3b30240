"""How samples are put together to requests of several, and outputs of several taken apart again."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from advisor.workloads.inputs import inputs_of


@dataclass
class Gathering:
    """What a request is made of.

    Attributes:
        size: Samples of a request.
        pool: So many requests are made of samples sorted by length; with 1 they stay in their order.
    """

    size: int = 1
    pool: int = 1


def gathered(knobs: Mapping[str, Any], config: Mapping[str, Any], size: int) -> Gathering:
    """What a request is made of under a configuration, as its knobs say at ``gather``.

    Args:
        knobs: By name.
        config: Settings of some of them.
        size: Samples of a request of the program as it is.
    """
    plan = Gathering(size)
    for name, value in config.items():
        gather = getattr(knobs.get(name), "gather", None)
        if gather is not None:
            gather(plan, value)
    return plan


class Gatherer:
    """Batches of items, one after the other, without end.

    Items of the next pool are loaded while those of one are answered, as many with each request: so no
    request has more to load than another.

    Args:
        items: The items, without end.
        plan: How they are put together now; it may change between two batches.
    """

    def __init__(self, items: Iterator[Any], plan: Callable[[], Gathering]) -> None:
        self._items = items
        self._plan = plan

    def __iter__(self) -> Iterator[list[Any]]:
        ahead, ready, before = list[Any](), deque[list[Any]](), Gathering()
        while True:
            plan = self._plan()
            if plan != before:
                ahead, ready, before = [], deque(), plan
            if plan.pool == 1:
                yield self._next(plan.size)
                continue
            if not ready:
                ahead += self._next(plan.size * plan.pool - len(ahead))
                ready, ahead = deque(by_length(ahead, plan.size)), []
            ahead += self._next(plan.size)
            yield ready.popleft()

    def _next(self, count: int) -> list[Any]:
        return [next(self._items) for _ in range(count)]


def by_length(
    items: Sequence[Any], size: int, item_of: Callable[[Any], Any] = lambda item: item
) -> list[list[Any]]:
    """Items of like length together; of these batches every second one comes in the second half.

    Args:
        items: Or what holds them.
        size: Of a batch.
        item_of: The item that one of ``items`` holds.
    """
    ordered = sorted(items, key=lambda each: length_of(item_of(each)))
    batches = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    return batches[::2] + batches[1::2]


def length_of(item: Any) -> int:
    """Values in what a model is given of an item: those of its tensors, or of a text its characters."""
    args, kwargs = inputs_of(item)
    return sum(map(_values, (*args, *kwargs.values())))


def padding_saved(items: Sequence[Any], collate: Callable[[list[Any]], Any], size: int) -> float:
    """Share (0 to 1) of what a model is given in batches that sorting by length leaves out.

    Args:
        items: In the order in which they come.
        collate: Puts some together.
        size: Of a batch.
    """
    whole = len(items) - len(items) % size
    in_order = [list(items[first : first + size]) for first in range(0, whole, size)]
    given = [
        sum(length_of(collate(batch)) for batch in batches)
        for batches in (in_order, by_length(items[:whole], size))
    ]
    return 1 - given[1] / given[0] if given[0] else 0.0


def taken_apart(value: Any, count: int, lengths: tuple[int, Sequence[int]] | None = None) -> list[Any] | None:
    """What a model answered to each of several samples, as if it were alone; ``None`` where that is not told.

    Args:
        value: What it answered to all of them.
        count: Of the samples.
        lengths: To which they were padded, and their own: so much is kept of what has one value for each
            place.
    """
    if hasattr(value, "detach"):
        if not value.dim() or len(value) != count:
            return None
        return [_trimmed(value[place : place + 1], lengths, place) for place in range(count)]
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        parts = {name: taken_apart(part, count, lengths) for name, part in value.items()}
        if any(part is None for part in parts.values()):
            return None
        return [{name: part[place] for name, part in parts.items() if part} for place in range(count)]
    if isinstance(value, tuple | list):
        if len(value) == count and not any(hasattr(part, "detach") for part in value):
            return list(value)
        several = [taken_apart(part, count, lengths) for part in value]
        if any(part is None for part in several):
            return None
        return [[part[place] for part in several if part] for place in range(count)]
    return None if isinstance(value, int | float) else [value] * count


def padded_lengths(items: Sequence[Any], batch: Any) -> tuple[int, list[int]] | None:
    """Places of the first input of a batch, and of each item, where those are fewer; ``None`` if not."""
    given: list[Any] = [
        next(iter((*args, *kwargs.values())), None) for args, kwargs in map(inputs_of, [batch, *items])
    ]
    together, *alone = given
    if not hasattr(together, "dim") or together.dim() < 2:
        return None
    padded, own = int(together.size(1)), [len(each) if hasattr(each, "__len__") else 0 for each in alone]
    return (padded, own) if max(own) <= padded and min(own) < padded else None


def _trimmed(part: Any, lengths: tuple[int, Sequence[int]] | None, place: int) -> Any:
    if lengths is None or part.dim() < 2 or part.size(1) != lengths[0]:
        return part
    return part[:, : lengths[1][place]]


def _values(value: Any) -> int:
    if hasattr(value, "numel"):
        return int(value.numel())
    if isinstance(value, Mapping):
        return sum(map(_values, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(_values, value))
    return len(value) if isinstance(value, str) else 1
