"""From the columns of a trace to the facts of a recorded window."""

import operator
from collections.abc import Iterator
from functools import partial

import numpy as np

from advisor.profiles.facts.profile import OptimizerFacts, StepPhases
from advisor.profiles.facts.recorded import OpCost, Window
from advisor.profiles.traces.calls import (
    BACKWARD,
    FORWARD,
    LOADER,
    OPTIMIZER,
    OTHER,
    PHASES,
    RECOMPUTING,
    Calls,
    Times,
    Values,
    calls_of,
)
from advisor.profiles.traces.device.device_timeline import device_facts
from advisor.profiles.traces.device.rank_times import communication_of
from advisor.profiles.traces.equal_rows import alike
from advisor.profiles.traces.event_cost import Parts
from advisor.profiles.traces.nesting import Flags, Ints
from advisor.profiles.traces.patterns import attentions, pointwise_chains, repetitions
from advisor.profiles.traces.steps import UPDATE
from advisor.profiles.traces.trace import Trace
from advisor.profiles.traces.work import (
    EXACT,
    FULL,
    NAMED,
    ROUNDED,
    ROUNDING,
    flops_by_type,
    multiplying,
    named_types,
)

MOST_OPS = 200
HAVE_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")  # of torch 2.13
HAVE_FOREACH = (*HAVE_FUSED, "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
LOADER_RANGE = "enumerate(DataLoader)#"
WRAPPERS = ("DistributedDataParallel.", "FullyShardedDataParallel.", "FSDP::")  # of ranges that torch opens
COMPUTE = (FORWARD, BACKWARD, OPTIMIZER)
CLEARING = frozenset({"aten::zero_", "aten::_foreach_zero_"})
LEAST_LEFT = 0.001  # of a step: on several threads more may be taken off than the step took
PER_PARAMETER = 2  # operators of an update, at least, for it to go parameter by parameter


def window_of(
    trace: Trace,
    *,
    clean_step_ms: float | None,
    steps: int | None = None,
    parts: Parts | None = None,
) -> Window:
    """What a trace shows of the operators, their patterns and the device.

    Args:
        trace: Of one process.
        clean_step_ms: Mean step without the profiler, to correct for its cost.
        steps: How many it holds, if that is known and no annotation says where they begin.
        parts: Parts of clean and of recorded steps, where the taps timed both.
    """
    return window_of_calls(trace, calls_of(trace, steps, clean_step_ms, parts), clean_step_ms)


def window_of_calls(trace: Trace, calls: Calls | None, clean_step_ms: float | None = None) -> Window:
    """The same from the calls of a trace, ``None`` where it holds no event of a host."""
    if calls is None:
        return Window(
            steps=0, step_ms=0.0, clean_step_ms=clean_step_ms, overhead=None, residual=0.0,
            events_per_step=0.0, compute_ms=0.0, with_shapes=False,
            notes=(*trace.notes, "no operator of the host was recorded"),
        )  # fmt: skip
    _ = calls.work, calls.places  # what needs most memory for a while comes while little else is kept
    device = device_facts(calls)
    within = calls.step >= 0
    ops, again = calls.op & within, recomputed(calls)
    computing = ops & np.isin(calls.phase, COMPUTE) & ~calls.exchanging
    return Window(
        steps=calls.steps.count,
        step_ms=calls.step_ms,
        clean_step_ms=clean_step_ms,
        overhead=None if not clean_step_ms else max(0.0, calls.usual_step_ms / clean_step_ms - 1),
        residual=_residual(calls, clean_step_ms),
        corrected_step_ms=_corrected_step_ms(calls),
        events_per_step=(int(within.sum()) + len(calls.kernels)) / calls.steps.count,
        compute_ms=calls.per_step_ms(float(calls.spent_self_us[computing].sum())),
        dispatches=int((calls.top & within & (calls.phase != LOADER)).sum()) / calls.steps.count,
        with_shapes=any(signature.shapes for signature in calls.signatures.distinct),
        with_stacks=bool(trace.of("python_function").any()),
        ops=tuple(_costs(calls, ops)),
        repetitions=repetitions(calls),
        attentions=attentions(calls),
        pointwise=pointwise_chains(calls),
        recompute_ms=_recompute_ms(calls, again),
        cast_ms=_ms(calls, casts(calls)),
        zero_ms=_ms(calls, clears(calls)),
        single_tensor_updates=_single_tensor_updates(calls),
        device=device,
        loader=_loader(calls),
        work=flops_by_type(calls, again),
        wrapped=any(name.startswith(WRAPPERS) for name in _ranges(calls)),
        notes=(*trace.notes, *calls.steps.notes),
    )


def phases_of_trace(trace: Trace) -> StepPhases | None:
    """Parts of the mean step on the host's timeline, ``None`` without an event of a host.

    A part reaches from its first to its last operator without one of another part between them;
    communication that nothing overlaps and calls that wait for the device are taken out of the part that
    they lie in.
    """
    calls = calls_of(trace)
    return None if calls is None else phases_of_calls(calls)


def phases_of_calls(calls: Calls) -> StepPhases:
    """The same from the calls of a trace."""
    phase, begin, end = _spans(calls)
    waits = calls.waiting[calls.phase[calls.waiting] != LOADER]
    waited = np.bincount(calls.phase[waits], (calls.end_us - calls.begin_us)[waits], len(PHASES))
    exchange = communication_of(calls)
    exposed = np.zeros(len(begin)) if exchange is None else exchange.exposed_us(begin, end)
    spent = np.maximum(np.bincount(phase, end - begin - exposed, len(PHASES)) - waited, 0.0)
    steps = calls.steps
    exchanged = 0.0 if exchange is None else float(exchange.exposed_us(steps.begin_us, steps.end_us).sum())
    taken = exchanged + float(waited.sum() + spent[[LOADER, *COMPUTE]].sum())
    return StepPhases(
        step_ms=calls.step_ms,
        input_wait_ms=calls.per_step_ms(float(spent[LOADER])),
        forward_ms=calls.per_step_ms(float(spent[FORWARD])),
        backward_ms=calls.per_step_ms(float(spent[BACKWARD])),
        optimizer_ms=calls.per_step_ms(float(spent[OPTIMIZER])),
        communication_ms=calls.per_step_ms(exchanged),
        sync_ms=calls.per_step_ms(float(waited.sum())),
        other_ms=max(0.0, calls.step_ms - calls.per_step_ms(taken)),
        steps=steps.count,
    )


def recomputed(calls: Calls) -> Ints:
    """Operators of forward that ran again within backward, as activation checkpointing does.

    Reentrant checkpointing runs them in a node of its own. Otherwise they are told by recording a graph
    in backward and by having run in forward with the same shapes; a second derivative records a graph as
    well, but of other operators.
    """
    function = calls.op & calls.named(lambda name: name.startswith(RECOMPUTING))
    evaluating = calls.op & calls.named(lambda name: name.startswith("autograd::engine::"))
    around = calls.host.nearest(function | evaluating)
    backward = calls.top & (calls.step >= 0) & (calls.phase == BACKWARD)
    reentrant = backward & (around >= 0) & function[around]
    candidates = np.flatnonzero(backward & calls.recording & ~reentrant & (calls.nodes >= 0))
    kind = calls.name.astype(np.int64) * len(calls.signatures.distinct) + calls.signature
    forward = calls.top & (calls.step >= 0) & (calls.phase == FORWARD)
    again = candidates[np.isin(kind[candidates], kind[forward])]
    if len(again) * 2 <= len(candidates):
        again = again[:0]
    return np.union1d(np.flatnonzero(reentrant), again)


def _recompute_ms(calls: Calls, rows: Ints) -> float:
    """Time of what is recomputed: on the host until the last operator that a node of the graph repeats.

    It counts from where the node begins, or from the first of those operators if others come before: Python
    of the model and of checkpointing runs again as well.
    """
    inside = calls.nodes[rows] >= 0
    if len(calls.kernels) or not inside.any():
        return _ms(calls, rows)
    rows = rows[inside]
    rows = rows[np.argsort(calls.nodes[rows], kind="stable")]
    nodes, at = np.unique(calls.nodes[rows], return_index=True)
    firsts, lasts = rows[at], np.maximum.reduceat(rows, at)
    tops = np.flatnonzero(calls.top)
    alone = np.searchsorted(tops, firsts) == np.searchsorted(tops, nodes)
    starts = np.where(alone, nodes, firsts)
    spans = calls.end_us[lasts] - calls.begin_us[starts] - calls.cost.us * (lasts - starts)
    return calls.per_step_ms(float(np.maximum(spans, 0.0).sum()))


def casts(calls: Calls) -> Ints:
    """Conversions of tensors to another type while computing; of more than a number, that is."""
    converts = np.array(
        [
            len(each.dtypes) > 1 and None not in each.dtypes[:2] and each.dtypes[0] != each.dtypes[1]
            and each.shapes[1] != ()
            for each in calls.signatures.distinct
        ],
        dtype=np.bool_,
    )  # fmt: skip
    computing = calls.op & (calls.step >= 0) & np.isin(calls.phase, COMPUTE)
    copies = np.flatnonzero(computing & calls.among(("aten::copy_",)) & converts[calls.signature])
    makers = calls.owner[copies]
    made = (makers >= 0) & calls.among(("aten::_to_copy", "aten::to"))[makers]
    return np.unique(makers[made])


def clears(calls: Calls) -> Ints:
    """Operators that write zeros into gradients."""
    annotation = calls.named(lambda name: name.startswith("Optimizer.zero_grad#"))
    clearing = calls.op & (calls.step >= 0) & calls.among(CLEARING) & (calls.host.nearest(annotation) >= 0)
    return np.flatnonzero(clearing & (calls.host.nearest(clearing) < 0))


def _ms(calls: Calls, ops: Ints) -> float:
    return calls.per_step_ms(float(calls.spent_us[ops].sum()))


def _single_tensor_updates(calls: Calls) -> bool | None:
    """Whether updates go parameter by parameter; ``None`` where no update was seen."""
    annotation = calls.named(lambda name: name.startswith("Optimizer.step#"))
    if not (annotation & (calls.step >= 0)).any():
        return None
    updating = (
        calls.op & (calls.step >= 0) & (calls.phase == OPTIMIZER) & (calls.host.nearest(annotation) >= 0)
    )
    grouped = calls.named(lambda name: name.startswith(("aten::_foreach_", "aten::_fused_")))
    several = int((updating & calls.top).sum()) >= PER_PARAMETER * calls.steps.count
    return several and not (updating & grouped).any()


def optimizers_of(calls: Calls) -> tuple[OptimizerFacts, ...]:
    """Optimizers that ranges of updates name, with the form that their operators show."""
    told = {calls.trace.names[at] for at in calls.told}
    cleared = bool(len(clears(calls)))
    found = []
    for name in sorted(each for each in told if each.startswith(UPDATE)):
        kind = name.removeprefix(UPDATE).partition(".")[0]
        around = calls.named(partial(operator.eq, name))
        inside = calls.op & (calls.step >= 0) & (calls.host.nearest(around) >= 0)
        used = {calls.trace.names[at] for at in np.unique(calls.name[inside]).tolist()}
        clearing = any(each.startswith(f"Optimizer.zero_grad#{kind}.") for each in told)
        found.append(
            OptimizerFacts(
                name=kind,
                fused=any(each.startswith("aten::_fused_") for each in used) or None,
                foreach=any(each.startswith("aten::_foreach_") for each in used) or None,
                has_fused=kind in HAVE_FUSED,
                has_foreach=kind in HAVE_FOREACH,
                zeroes_gradients=cleared if clearing else None,
            )
        )
    return tuple(found)


def _ranges(calls: Calls) -> set[str]:
    """Names of all that ran within steps."""
    return {calls.trace.names[name] for name in np.unique(calls.name[calls.step >= 0]).tolist()}


def _loader(calls: Calls) -> str:
    """The iterator's class in ``enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__``."""
    ranges = sorted(name for name in _ranges(calls) if name.startswith(LOADER_RANGE))
    return ranges[0].removeprefix(LOADER_RANGE).partition(".")[0] if ranges else ""


def _residual(calls: Calls, clean_step_ms: float | None) -> float:
    """Share of a clean step by which the recorded one, less what was taken off, misses it."""
    if not clean_step_ms:
        return 0.0
    expected_ms = calls.cost.slowdown * clean_step_ms
    return abs(_corrected_step_ms(calls) - expected_ms) / expected_ms + calls.cost.unexplained


def _corrected_step_ms(calls: Calls) -> float:
    """The recorded step, less what was taken off for the profiler's own cost."""
    within = calls.step >= 0
    ops = calls.op & within
    removed = -float(calls.self_us[ops].sum())  # before the durations are kept beside it
    duration = calls.end_us - calls.begin_us
    removed += float(duration[ops & (calls.owner < 0)].sum())
    training = within & (calls.thread == calls.steps.thread) & (calls.owner < 0)
    between = 1000 * calls.steps.mean_ms * calls.steps.count - float(duration[training & calls.op].sum())
    removed += min(max(between, 0.0), calls.cost.us * int(training.sum()))
    return max(calls.usual_step_ms - calls.per_step_ms(removed), LEAST_LEFT * calls.usual_step_ms)


def _costs(calls: Calls, ops: Flags) -> Iterator[OpCost]:
    """The most expensive operators by name, phase, shapes and types."""
    rows = np.flatnonzero(ops)
    if not len(rows):
        return
    kinds = alike(calls.name[rows], calls.phase[rows], calls.signature[rows])
    first, group, count = kinds.first, kinds.group, kinds.count
    self_us = np.bincount(group, weights=calls.spent_self_us[rows])
    total_us = np.bincount(group, weights=calls.spent_us[rows])
    place = _places(calls, rows, group, len(first))
    work, exact, types = calls.work, multiplying(calls, EXACT), named_types(calls)
    named_full = types == [dtype for dtype, _ in NAMED].index(FULL)
    rounded = work.arithmetic == work.types.index(ROUNDED)
    rounded |= named_full & multiplying(calls, ROUNDING)
    for at in np.argsort(-self_us, kind="stable")[:MOST_OPS].tolist():
        row = int(rows[first[at]])
        name, signature = calls.trace.names[calls.name[row]], calls.signature_of(row)
        yield OpCost(
            name=name,
            calls=int(count[at]) / calls.steps.count,
            self_ms=calls.per_step_ms(float(self_us[at])),
            total_ms=calls.per_step_ms(float(total_us[at])),
            phase=PHASES[OTHER if calls.exchanging[row] else calls.phase[row]],
            shapes=signature.shapes,
            dtype=signature.dtype or (NAMED[types[row]][0] if types[row] >= 0 else None),
            flops=_known(float(work.kinds_flops[work.kind[row]])),
            bytes=_known(float(work.kinds_bytes[work.kind[row]])),
            location=calls.places[1][place[at]] if place[at] >= 0 else None,
            dtypes=signature.dtypes,
            arithmetic=ROUNDED if rounded[row] else FULL if exact[row] else None,
        )


def _places(calls: Calls, rows: Ints, group: Values, groups: int) -> Values:
    """For each group the place of its first call that has one."""
    number = calls.places[0][rows]
    found = np.full(groups, -1, dtype=np.int64)
    known = np.flatnonzero(number >= 0)[::-1]
    found[group[known]] = number[known]
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _spans(calls: Calls) -> tuple[Values, Times, Times]:
    """Phase, beginning and end of each stretch of one phase, to the end of its last operator."""
    training = np.unique(np.append(calls.thread[calls.nodes[calls.nodes >= 0]], calls.steps.thread))
    outer = (calls.top | calls.marking) & (calls.step >= 0) & np.isin(calls.thread, training)
    rows = np.flatnonzero(outer)
    rows = rows[np.argsort(calls.begin_us[rows], kind="stable")]
    phase, step = calls.phase[rows], calls.step[rows]
    changed = (np.diff(phase) != 0) | (np.diff(step) != 0)
    fresh = np.concatenate(([True], changed))[: len(rows)]
    begin = calls.begin_us[rows[fresh]]
    end = np.full(len(begin), -np.inf)
    np.maximum.at(end, np.cumsum(fresh) - 1, calls.end_us[rows])
    return phase[fresh].astype(np.int64), begin, np.minimum(end, np.append(begin[1:], np.inf)[: len(begin)])
