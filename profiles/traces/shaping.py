"""Shapes and places for a trace that was recorded without them, from a second window of the same program.

Recording shapes costs several times what recording an operator costs (``benchmarks/overhead.py``), so the
window that is timed goes without.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.profiles.facts.recorded import Window
from advisor.profiles.traces.event_cost import Parts
from advisor.profiles.traces.nesting import Ints
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.scaling import to_clean_steps
from advisor.profiles.traces.steps import Steps, steps_of
from advisor.profiles.traces.trace import Trace, narrow

FIELDS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")

Runs = dict[str, Ints]


def with_shapes(timed: Trace, shaped: Trace) -> Trace:
    """The timed trace, its operators with the inputs that they had in the other one.

    The n-th call of an operator in a step is taken for the n-th in a step of the other trace that called it
    as often. Where no step did, its inputs stay unknown, unless they were the same in all calls.
    """
    wanted, known = steps_of(timed), steps_of(shaped)
    if wanted is None or known is None:
        return timed
    steps = list(_runs(shaped, known))
    detail = timed.detail.astype(np.int64)  # there will be more of them than a narrow column holds
    details = list(timed.details)
    merged: dict[tuple[int, int], int] = {}
    for number, runs in enumerate(_runs(timed, wanted)):
        for name, rows in runs.items():
            source = _source(shaped, steps, number, name, len(rows))
            for row, at in zip(rows.tolist(), source, strict=False):
                key = int(timed.detail[row]), at
                if key not in merged:
                    merged[key] = len(details)
                    details.append(_joined(timed, shaped, key))
                detail[row] = merged[key]
    return replace(timed, detail=narrow(detail), details=details)


def joined(timed: Trace, others: Sequence[Trace], clean_step_ms: float, parts: Parts | None = None) -> Window:
    """The window of the timed trace, with the shapes and places that were recorded apart.

    Args:
        timed: Its times count.
        others: Of the same program, with shapes and perhaps with marked lines.
        clean_step_ms: Mean of a normal step.
        parts: Parts of normal steps and of those of the timed trace.
    """
    for each in others:
        timed = with_shapes(timed, each)
    window = to_clean_steps(window_of(timed, clean_step_ms=clean_step_ms, parts=parts))
    for each in others:
        window = with_places(window, window_of(each, clean_step_ms=None))
    return window


def with_places(timed: Window, marked: Window) -> Window:
    """The timed window, with the places that a second one with marked lines found."""
    if not any(op.location for op in marked.ops):
        return timed
    by_shape = {(op.name, op.phase, op.shapes): op.location for op in marked.ops if op.location}
    by_name = {(op.name, op.phase): op.location for op in reversed(marked.ops) if op.location}
    ops = tuple(
        replace(op, location=by_shape.get((op.name, op.phase, op.shapes)) or by_name.get((op.name, op.phase)))
        for op in timed.ops
    )
    rows = {row.ops: row.location for row in marked.repetitions}
    attentions = {each.shape: each.location for each in marked.attentions}
    pointwise = timed.pointwise
    if pointwise is not None and marked.pointwise is not None:
        pointwise = replace(pointwise, location=marked.pointwise.location)
    return replace(
        timed,
        with_stacks=True,
        ops=ops,
        repetitions=tuple(replace(row, location=rows.get(row.ops)) for row in timed.repetitions),
        attentions=tuple(replace(each, location=attentions.get(each.shape)) for each in timed.attentions),
        pointwise=pointwise,
    )


def _runs(trace: Trace, steps: Steps) -> Iterator[Runs]:
    """For each step the rows of every operator, in order."""
    ops = np.flatnonzero(trace.of("cpu_op"))
    step = steps.of(trace.begin_us[ops])
    for number in range(len(steps.begin_us)):
        rows = ops[step == number]
        if not len(rows):  # a request that another runtime answers calls none
            yield {}
            continue
        order = np.argsort(trace.name[rows], kind="stable")
        rows = rows[order]
        names, starts = np.unique(trace.name[rows], return_index=True)
        yield {
            trace.names[name]: part
            for name, part in zip(names.tolist(), np.split(rows, starts[1:]), strict=True)
        }


def _source(shaped: Trace, steps: list[Runs], number: int, name: str, calls: int) -> list[int]:
    """The details of so many calls in a step of the other trace; empty where they cannot be told."""
    nearest = [steps[(number + offset) % len(steps)] for offset in range(len(steps))]
    for runs in nearest:
        rows = runs.get(name)
        if rows is not None and len(rows) == calls:
            return [int(at) for at in shaped.detail[rows]]
    inputs: dict[str, int] = defaultdict(int)
    for runs in nearest:
        for at in shaped.detail[runs.get(name, [])]:
            inputs[repr(_inputs(shaped, int(at)))] = int(at)
    return [next(iter(inputs.values()))] * calls if len(inputs) == 1 else []


def _inputs(trace: Trace, at: int) -> dict[str, Any]:
    return (
        {field: trace.details[at][field] for field in FIELDS if field in trace.details[at]} if at >= 0 else {}
    )


def _joined(timed: Trace, shaped: Trace, key: tuple[int, int]) -> dict[str, Any]:
    own, other = key
    return {**(timed.details[own] if own >= 0 else {}), **_inputs(shaped, other)}
