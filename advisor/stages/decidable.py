"""What a budget can decide of a served model: whether its answers changed is told by many of them."""

from dataclasses import replace

from advisor.base.durations import write_duration
from advisor.base.unit import Unit
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.agreement import MARGIN, deciding_s
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts, suggested_budget
from advisor.tuners.accuracy.shares import samples_for_none
from advisor.tuners.knob import Value
from advisor.tuners.search.race import CLEAR
from advisor.tuners.space.space import NotTried, Space

ANSWERS_SHARE = 0.5  # of what is left before the search, that comparing answers may take
VERDICT_SHARE = 0.8  # that all may take which decides


def decidable_space(bench: MeasuredBench, space: Space) -> Space:
    """The space less what changes answers, where too few requests fit into the budget to tell by how much.

    What the user names stays.
    """
    if bench.settings.unit is not Unit.REQUEST or not bench.arena.timed:
        return space
    undecided = {
        name: reason for name, values in space.choices.items()
        if name not in space.named and (reason := _undecided(bench, space, name, values[1:]))
    }  # fmt: skip
    return replace(
        space,
        choices={name: values for name, values in space.choices.items() if name not in undecided},
        not_tried=[*space.not_tried, *(NotTried(name, None, reason) for name, reason in undecided.items())],
    )


def _undecided(bench: MeasuredBench, space: Space, name: str, values: list[Value]) -> str | None:
    """Why no value of a knob is tried; ``None`` where one may be decided."""
    max_loss, told = bench.settings.max_loss, None
    for value in values:
        config = space.complete({name: value})
        answers_s = deciding_s(bench, space.present, config, max_loss)
        least_s = ConfirmationCosts(bench, space.present, config, 1 + CLEAR).least_s()
        needed_s = max(MARGIN * answers_s / ANSWERS_SHARE, least_s / VERDICT_SHARE)
        if not answers_s or needed_s <= bench.left_s:
            return None
        could = suggested_budget(bench.spent_s + needed_s)
        told = (
            f"whether it changes answers is told by {samples_for_none(max_loss)} of them before and after, "
            f"which takes about {write_duration(answers_s)}; {could} could"
        )
    return told
