"""Patterns in the order of operators: loops over pieces, attention written out, elementwise chains."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from advisor.profiles.facts.recorded import Attention, PointwiseChains, Repetition
from advisor.profiles.traces.calls import BACKWARD, FORWARD, OTHER, PHASES, Calls, Times, Values
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
    for first, at, last in zip(*_between_products(calls, sequence, softmaxes), strict=True):
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


def _between_products(calls: Calls, sequence: _Sequence, softmaxes: Ints) -> list[list[int]]:
    """The nearest product before each softmax, the softmax and the nearest after, where both are.

    Nothing that does not belong may stand between them.
    """
    product = calls.among(ATTENDING)[sequence.rows]
    ends = np.flatnonzero(product | calls.among(APART | set(SOFTMAX))[sequence.rows])
    if not len(ends):
        return [[], [], []]
    at = np.searchsorted(ends, softmaxes)
    before, after = ends[np.maximum(at - 1, 0)], ends[np.minimum(at + 1, len(ends) - 1)]
    whole = (before < softmaxes) & (softmaxes < after)
    for end in (before, after):
        whole &= product[end] & (np.abs(end - softmaxes) <= REACH)
        whole &= sequence.segment[end] == sequence.segment[softmaxes]
    return [each[whole].tolist() for each in (before, softmaxes, after)]


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
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return None
    read, written = _traffic(calls)
    read, written = read[calls.signature[rows]], written[calls.signature[rows]]
    chained = np.append(linked, False)
    chained[ends] = True
    passed_on = np.minimum(written[:-1], read[1:])[linked].sum()
    spent = np.add.reduceat(np.where(chained, calls.spent_us[rows], 0.0), begins)
    longest = int(np.argmax(ends - begins))
    names = calls.name[rows[begins[longest] : ends[longest] + 1]].tolist()
    per_step = 1 / calls.steps.count
    return PointwiseChains(
        ms=calls.per_step_ms(float(spent.sum())),
        chains=len(begins) * per_step,
        longest=tuple(calls.trace.names[name] for name in names),
        bytes_moved=float((read + written)[chained].sum()) * per_step,
        bytes_fused=float(read[chained].sum() - passed_on + written[ends].sum()) * per_step,
        location=calls.place(int(rows[begins[np.argmax(spent)]])),
    )


def _traffic(calls: Calls) -> tuple[Times, Times]:
    """Bytes that operators read and write by the shapes that they were called with, by signature."""
    distinct = calls.signatures.distinct
    written = [each.elements * SIZES[each.dtype or "float32"] for each in distinct]
    return np.array([each.input_bytes for each in distinct], np.float64), np.array(written, np.float64)
