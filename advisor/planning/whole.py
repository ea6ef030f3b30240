"""All that one call of the planner says: a plan for each strategy, how they compare, memory of ranks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from advisor.planning.choosing import choices
from advisor.planning.memory import RankMemory
from advisor.planning.odds import Compared, compare
from advisor.planning.plan import Plan

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Whole:
    """Plans of one program; with one strategy nothing is compared."""

    plans: tuple[Plan, ...]
    compared: tuple[Compared, ...]
    memory: tuple[RankMemory, ...]
    choices: tuple[str, ...] = ()  # sentences: which count to take

    @classmethod
    def of(
        cls,
        plans: Sequence[Plan],
        memory: Sequence[RankMemory] = (),
        *,
        deadline_hours: float | None = None,
        spend: float | None = None,
    ) -> "Whole":
        """With the odds of the strategies, and what to take."""
        compared = tuple(compare(plans)) if len(plans) > 1 else ()
        return cls(tuple(plans), compared, tuple(memory), choices(plans, deadline_hours, spend))

    def as_json(self) -> dict[str, Any]:
        """The document of `--format json`."""
        document = self.plans[0].as_json()
        document["predictions"] = [row for plan in self.plans for row in plan.as_json()["predictions"]]
        document["laws"] = [row for plan in self.plans for row in plan.as_json()["laws"]]
        odds = [{"ranks": row.ranks, "odds": dict(row.odds)} for row in self.compared]
        memory = [asdict(row) for row in self.memory]
        document |= {"odds": odds, "memory": memory, "choices": list(self.choices)}
        return {"schema_version": SCHEMA_VERSION, **document}
