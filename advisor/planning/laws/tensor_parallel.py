"""Every layer split over ranks, its results summed in forward and in backward."""

from dataclasses import replace

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.ring import Ring

SUMS, SUMS_WITH_RECOMPUTATION = 4, 6  # per layer: two in forward, two in backward; forward comes twice


class TensorParallel(Law):
    """All-reduces stand between the products of a layer, so nothing hides them: for links within a node."""

    formula = "4 all-reduces of batch x sequence x hidden per layer (6 with recomputation)"
    source = "Shoeybi and others, 2019 (Megatron-LM), figure 4"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        sums = SUMS_WITH_RECOMPUTATION if work.recomputes else SUMS
        one = replace(work, gradient_bytes=work.activation_bytes)
        return work.layers * sums * Ring().seconds(one, fabric)
