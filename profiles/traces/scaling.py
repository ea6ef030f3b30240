"""Times of a recorded window brought to the scale of a clean step: load comes and goes between them."""

from dataclasses import replace

from advisor.profiles.facts.recorded import Window

UNCLEAR = 0.25  # of the overhead: how far one operator's share of it may lie from the mean cost of an event
MOST = 4.0  # beyond that the two were not the same program


def to_clean_steps(window: Window) -> Window:
    """The window with all times scaled so that its corrected step takes as long as a clean one.

    Shares of the step are then comparable with phases and replays. ``residual`` becomes what the profiler's
    cost leaves unclear: a quarter of its overhead, or less where the corrected step met the clean one anyway.
    """
    clean, overhead = window.clean_step_ms, window.overhead
    if not clean or overhead is None or window.corrected_step_ms is None:
        return window
    factor = min(MOST, max(1 / MOST, clean / window.corrected_step_ms))
    pointwise = window.pointwise
    return replace(
        window,
        compute_ms=window.compute_ms * factor,
        recompute_ms=window.recompute_ms * factor,
        cast_ms=window.cast_ms * factor,
        zero_ms=window.zero_ms * factor,
        residual=min(window.residual, UNCLEAR * overhead),
        ops=tuple(
            replace(op, self_ms=op.self_ms * factor, total_ms=op.total_ms * factor) for op in window.ops
        ),
        repetitions=tuple(replace(row, ms=row.ms * factor) for row in window.repetitions),
        attentions=tuple(replace(each, ms=each.ms * factor) for each in window.attentions),
        pointwise=None if pointwise is None else replace(pointwise, ms=pointwise.ms * factor),
    )
