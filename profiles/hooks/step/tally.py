"""What one line of the program called in the step that is counted, added up call by call."""

from dataclasses import replace

from advisor.profiles.facts.observed import LineCalls, Location, Reordered, Unread
from advisor.profiles.hooks.step.demand import Made

NAMED = 3  # functions of each line


class Tally:
    """What one line of the program called in the step that is counted."""

    def __init__(self) -> None:
        self.calls = self.repeated = self.across = 0
        self.ns = self.repeated_ns = 0
        self.depth: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.spent: dict[str, int] = {}
        self.again: dict[str, int] = {}
        self.weights: set[int] = set()
        self.frozen: set[int] = set()
        self.listed = 0
        self.graphed = self.parametrized = False
        self.unread_ns = self.unread_calls = 0
        self.little_ns = 0
        self.masked = False
        self.least: dict[str, int] = {}
        self.orders: list[tuple[int, Reordered]] = []

    def reorder(self, spared: int, order: Reordered) -> None:
        """Another order of the same sums would spare so many nanoseconds."""
        self.orders.append((spared, order))

    def unread(self, made: Made, read: float) -> None:
        """Of one of its results no more than this share (0 to 1) is read."""
        lost = int(made.spent * (1 - read))
        self.unread_calls += 1
        self.unread_ns += lost
        self.little_ns += made.spent
        self.masked |= made.masked
        self.least[made.name] = self.least.get(made.name, 0) + lost

    def add(self, name: str, spent: int, depth: int, computed: int | None, step: int) -> None:
        """One call, and the step in which its value was computed before, if any."""
        self.calls += 1
        self.ns += spent
        self.depth[name] = max(self.depth.get(name, 0), depth)
        self.counts[name] = self.counts.get(name, 0) + 1
        self.spent[name] = self.spent.get(name, 0) + spent
        if computed is not None:
            self.repeated += 1
            self.repeated_ns += spent
            self.again[name] = self.again.get(name, 0) + spent
            self.across += computed < step

    def facts(self, place: Location, phase: str, phase_ns: dict[str, int]) -> LineCalls:
        """As told."""
        whole = max(1, phase_ns.get(phase, 0))
        most = max(self.counts, key=lambda name: (self.depth[name], self.counts[name]))
        return LineCalls(
            location=place,
            phase=phase,
            functions=_longest(self.spent),
            calls=self.calls,
            share=self.ns / whole,
            repeated=self.repeated,
            repeated_across=self.across,
            repeated_share=self.repeated_ns / whole,
            turns=self.counts[most],
            chain=self.depth[most],
            weights=len(self.weights),
            frozen=len(self.frozen),
            listed=self.listed,
            graphed=self.graphed,
            parametrized=self.parametrized,
            repeated_functions=_longest(self.again),
            unread=Unread(
                self.unread_calls,
                self.unread_ns / whole,
                1 - self.unread_ns / max(1, self.little_ns),
                _longest(self.least),
                self.masked,
            )
            if self.unread_calls
            else None,
            reordered=_most_spared(self.orders, whole),
        )


def spared(line: LineCalls) -> float:
    """Share (0 to 1) of its phase that another order would spare, which other lines may spend."""
    return line.reordered.share if line.reordered is not None else 0.0


def _most_spared(orders: list[tuple[int, Reordered]], whole: int) -> Reordered | None:
    if not orders:
        return None
    _, order = max(orders, key=lambda each: each[0])
    alike = [spared for spared, each in orders if each.kind == order.kind]
    return replace(order, calls=len(alike), share=sum(alike) / whole)


def _longest(spent: dict[str, int]) -> tuple[str, ...]:
    return tuple(sorted(spent, key=lambda name: -spent[name])[:NAMED])
