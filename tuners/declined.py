"""Changes that acted when they were found and declined later, such as in a second epoch."""

from collections.abc import Collection, Mapping
from typing import Any

from advisor.tuners.failures import Failure, TrialFailed


class Declined(TrialFailed):
    """What was measured holds for fewer changes than were asked for; ``refused`` has the reason of each."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        told = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        super().__init__(Failure("not_applied", told))
        self.refused = dict(refused)


def refuse_declined(message: Mapping[str, Any], changed: Collection[str]) -> None:
    """Refuse what was measured while a change did not act.

    Args:
        message: That of a slot.
        changed: What differs from the baseline.

    Raises:
        Declined: One of them was refused. An event that has not come yet is no refusal.
    """
    unmet = message.get("unmet", ())
    refused = {
        name: why for name, why in message.get("refused", {}).items()
        if name in changed and name not in unmet
    }  # fmt: skip
    if refused:
        raise Declined(refused)
