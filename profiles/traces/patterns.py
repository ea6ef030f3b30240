"""Patterns in the order of operators: loops over pieces, attention written out, elementwise chains."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from advisor.profiles.facts.recorded import Attention, PointwiseChains, Repetition
from advisor.profiles.traces.calls import BACKWARD, FORWARD, OTHER, PHASES, Calls, Values
from advisor.profiles.traces.flops import (
    CONVERTING,
    CONVOLUTIONS,
    LINEAR,
    NORMALISING,
    POINTWISE,
    PRODUCTS,
    VIEWS,
)
from advisor.profiles.traces.nesting import Ints
from advisor.profiles.traces.signatures import SIZES, Signature, elements

LEAST_TURNS = 10  # torch's own pattern matcher reports loops from there
LONGEST_PERIOD = 8
INDEXING = ("aten::select", "aten::slice", "aten::index", "aten::narrow", "aten::gather", "aten::unbind")

SOFTMAX = ("aten::softmax", "aten::_softmax")
ATTENDING = ("aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum")
APART = frozenset({*PRODUCTS, *LINEAR, *CONVOLUTIONS, *ATTENDING, "aten::embedding", "aten::layer_norm"})
"""What ends the search for the products of an attention."""

PIECES = ("select", "slice", "narrow", "split", "split_with_sizes", "chunk", "unbind", "diagonal")
RESHAPING = VIEWS - {f"aten::{name}" for name in PIECES}
"""Views of a whole tensor; those of pieces end a chain."""

ARITHMETIC = ("aten::add", "aten::sub", "aten::mul", "aten::div")
"""What may well follow itself on one tensor; any other operator does so on one tensor after another."""

REACH = 24  # operators between a product of an attention and its softmax: masks, scaling, reshaping


@dataclass(frozen=True)
class _Sequence:
    """Operators called directly, in order; ``segment`` numbers stretches of one thread, phase and step."""

    rows: Ints
    segment: Values

    @classmethod
    def of(cls, calls: Calls) -> "_Sequence":
        rows = np.flatnonzero(calls.top & (calls.step >= 0))
        place = np.stack([calls.thread[rows], calls.phase[rows], calls.step[rows]])
        changed = (np.diff(place, axis=1) != 0).any(axis=0)
        return cls(rows, np.concatenate(([0], np.cumsum(changed)))[: len(rows)])


def repetitions(calls: Calls) -> tuple[Repetition, ...]:
    """Operators that repeat at least ten times in a row, longest time first.

    The time reaches from the first operator to the end of the last, with the Python between them.
    """
    sequence = _Sequence.of(calls)
    found: dict[tuple[tuple[str, ...], int], list[tuple[float, int, int]]] = defaultdict(list)
    names = calls.name[sequence.rows].astype(np.int64)
    for first, last, period in _tandems(names, sequence.segment):
        rows = sequence.rows[first:last]
        span = float(calls.end_us[rows[-1]] - calls.begin_us[rows[0]])
        span -= calls.cost.us * int(rows[-1] - rows[0])  # rows between them are the events inside
        part = _from_index(tuple(calls.trace.names[name] for name in names[first : first + period].tolist()))
        turns = (last - first) // period
        found[part, int(calls.phase[rows[0]])].append((max(span, 0.0), turns, int(rows[0])))
    result = [
        Repetition(
            ops=part,
            count=max(turns for _, turns, _ in rows),
            times=len(rows) / calls.steps.count,
            ms=calls.per_step_ms(sum(span for span, _, _ in rows)),
            location=calls.place(max(rows)[2]),
            phase=PHASES[phase],
        )
        for (part, phase), rows in found.items()
    ]
    return tuple(sorted(result, key=lambda each: -each.ms))


def _tandems(names: Values, segment: Values) -> Iterator[tuple[int, int, int]]:
    """Beginning, end and period of each repeated stretch; the shortest period counts."""
    taken = np.zeros(len(names), dtype=np.bool_)
    for period in range(1, LONGEST_PERIOD + 1):
        if len(names) <= period:
            return
        same = (names[period:] == names[:-period]) & (segment[period:] == segment[:-period])
        edges = np.flatnonzero(np.diff(same.astype(np.int8), prepend=0, append=0))
        begins, ends = edges[::2], edges[1::2]
        long = ends - begins >= period * (LEAST_TURNS - 1)
        for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
            last = begin + (end - begin + period) // period * period
            if not taken[begin:last].any():
                taken[begin:last] = True
                yield begin, last, period


def _from_index(part: tuple[str, ...]) -> tuple[str, ...]:
    """The repeated part turned so that it begins with indexing, if it has any."""
    at = next((at for at, name in enumerate(part) if name.startswith(INDEXING)), 0)
    return part[at:] + part[:at]


def attentions(calls: Calls) -> tuple[Attention, ...]:
    """Product, softmax, product in the order of operators, by shape and type."""
    sequence = _Sequence.of(calls)
    names = calls.trace.names
    wanted = np.isin(calls.phase[sequence.rows], (FORWARD, OTHER))
    softmaxes = np.flatnonzero(calls.among(SOFTMAX)[sequence.rows] & wanted)
    found: dict[tuple[tuple[int, ...], str | None], list[tuple[float, int]]] = defaultdict(list)
    for at in softmaxes.tolist():
        first, last = _product(calls, sequence, at, -1), _product(calls, sequence, at, +1)
        if first is None or last is None:
            continue
        rows = sequence.rows[first : last + 1]
        signatures = [calls.signatures.distinct[calls.signature[row]] for row in rows[[0, at - first, -1]]]
        kinds = [names[calls.name[row]] for row in rows[[0, -1]]]
        shape = _attention_shape(kinds, signatures)
        if shape is not None:
            spent = float(calls.spent_us[rows].sum())
            found[shape, signatures[0].dtype or signatures[1].dtype].append((spent, int(rows[0])))
    result = [
        Attention(
            shape=shape,
            count=len(rows) / calls.steps.count,
            ms=calls.per_step_ms(sum(spent for spent, _ in rows)),
            dtype=dtype,
            location=calls.place(max(rows)[1]),
        )
        for (shape, dtype), rows in found.items()
    ]
    return tuple(sorted(result, key=lambda each: -each.ms))


def _product(calls: Calls, sequence: _Sequence, at: int, direction: int) -> int | None:
    """The nearest product before or after a softmax, if nothing stands between that does not belong."""
    for distance in range(1, REACH + 1):
        there = at + direction * distance
        if not 0 <= there < len(sequence.rows) or sequence.segment[there] != sequence.segment[at]:
            return None
        name = calls.trace.names[calls.name[sequence.rows[there]]]
        if name in ATTENDING:
            return there
        if name in APART or name in SOFTMAX:
            return None
    return None


def _attention_shape(kinds: list[str], signatures: list[Signature]) -> tuple[int, ...] | None:
    """Batch, heads, queries, keys and width; empty without shapes, ``None`` if the shapes do not fit."""
    query, weights, value = signatures
    if not weights.shapes:
        return ()
    inner = weights.shapes[0]
    if len(inner) < 3:
        return None
    factors = [
        [shape for shape in each.shapes[PRODUCTS.get(kind, 0) :] if len(shape) >= 3]
        for kind, each in zip(kinds, (query, value), strict=True)
    ]
    if len(factors[0]) < 2 or len(factors[1]) < 2:
        return None
    if kinds[0] != "aten::einsum" and elements(factors[0][0][:-1]) * factors[0][1][-1] != elements(inner):
        return None
    if kinds[1] != "aten::einsum" and elements(factors[1][0]) != elements(inner):
        return None
    batch, heads = (inner[0], elements(inner[1:-2])) if len(inner) > 3 else (inner[0], 1)
    return (batch, heads, inner[-2], inner[-1], factors[0][0][-1])


def pointwise_chains(calls: Calls) -> PointwiseChains | None:
    """Elementwise and normalising operators over tensors of one size, one right after another.

    What they read and write comes from their shapes; which tensors these were is not recorded. Fused they
    would read what is not made within the chain, and write the last result: what backward needs of the rest
    is left out.
    """
    sequence = _Sequence.of(calls)
    calling = np.zeros(len(calls.host), dtype=np.bool_)
    calling[calls.owner[calls.op & (calls.owner >= 0)]] = True
    still = calls.among(RESHAPING) | (calls.among(CONVERTING) & ~calling)
    moving = ~still[sequence.rows] & np.isin(calls.phase[sequence.rows], (FORWARD, BACKWARD))
    rows, segment = sequence.rows[moving], sequence.segment[moving]
    fusible = calls.among(POINTWISE | NORMALISING | CONVERTING)[rows]
    largest = np.array([float(each.elements) for each in calls.signatures.distinct])
    sizes = largest[calls.signature[rows]]
    fusible &= sizes > 1
    linked = fusible[1:] & fusible[:-1] & (sizes[1:] == sizes[:-1]) & (segment[1:] == segment[:-1])
    linked &= (calls.name[rows[1:]] != calls.name[rows[:-1]]) | calls.among(ARITHMETIC)[rows[1:]]
    edges = np.flatnonzero(np.diff(linked.astype(np.int8), prepend=0, append=0))
    chains = [rows[begin : end + 1] for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    if not chains:
        return None
    traffic = _Traffic(calls)
    spent = [float(calls.spent_us[chain].sum()) for chain in chains]
    longest = max(chains, key=len)
    dearest = chains[int(np.argmax(spent))]
    per_step = 1 / calls.steps.count
    return PointwiseChains(
        ms=calls.per_step_ms(sum(spent)),
        chains=len(chains) * per_step,
        longest=tuple(calls.trace.names[name] for name in calls.name[longest].tolist()),
        bytes_moved=sum(traffic.moved(chain) for chain in chains) * per_step,
        bytes_fused=sum(traffic.fused(chain) for chain in chains) * per_step,
        location=calls.place(int(dearest[0])),
    )


class _Traffic:
    """Bytes of chains, from the shapes that each operator was called with."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[int, tuple[float, float]] = {}

    def moved(self, chain: Ints) -> float:
        """What the operators read and write one by one."""
        return sum(read + written for read, written in map(self._of, chain.tolist()))

    def fused(self, chain: Ints) -> float:
        """What one kernel would."""
        each = [self._of(row) for row in chain.tolist()]
        inner = sum(min(written, read) for (_, written), (read, _) in pairwise(each))
        return sum(read for read, _ in each) - inner + each[-1][1]

    def _of(self, row: int) -> tuple[float, float]:
        number = int(self._calls.signature[row])
        if number not in self._known:
            signature = self._calls.signatures.distinct[number]
            written = signature.elements * SIZES[signature.dtype or "float32"]
            self._known[number] = (float(signature.input_bytes), float(written))
        return self._known[number]
