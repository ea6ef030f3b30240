"""Parameters split too, gathered for forward and again for backward (ZeRO 3, FSDP)."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.all_gather import AllGather
from advisor.planning.laws.reduce_scatter import ReduceScatter


class Fsdp(Law):
    """One and a half times the bytes of plain data parallel training."""

    formula = "2 all-gathers + reduce-scatter"
    source = "Rajbhandari and others, 2020, section 7; Zhao and others, 2023"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        return ReduceScatter().seconds(work, fabric) + 2 * AllGather().seconds(work, fabric)
