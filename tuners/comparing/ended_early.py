"""What is said of a program that came to its end before one comparison of it was complete."""

from typing import TYPE_CHECKING

from advisor.base.unit import Unit
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import Failure, TrialFailed

if TYPE_CHECKING:
    from advisor.tuners.comparing.duel import Arena

LONGER = {
    Unit.STEP: "let it train longer (more epochs, more data)",
    Unit.REQUEST: "let one run answer more (a longer loop, more inputs, an argument that says how many)",
}
SLOTS = 4  # of a quad


def ended_early(arena: "Arena", ended: SessionEnded, slots: int = SLOTS) -> TrialFailed:
    """How far it came, how far it has to come, and what to lengthen.

    Args:
        arena: In which it was compared.
        ended: The program's end.
        slots: That one process has of a comparison, each after a step that is dropped.
    """
    unit, needed = arena.unit, 1 + slots * (arena.steps() + 1)
    told = f"the program ended after {ended.outcome.steps} {unit}s, before one comparison was complete"
    return TrialFailed(Failure("user_error", f"{told}, which takes {needed} and more: {LONGER[unit]}"))
