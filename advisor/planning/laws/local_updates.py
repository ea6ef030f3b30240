"""Ranks update alone and average their parameters every H steps."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.ring import Ring


class LocalUpdates(Law):
    """An all-reduce every H steps; what learning loses by it is not a matter of time."""

    formula = "all-reduce / H"
    source = "Stich, 2019 (local SGD)"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        return Ring().seconds(work, fabric) / work.local_steps
