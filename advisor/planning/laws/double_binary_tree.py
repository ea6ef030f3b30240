"""Two complementary binary trees over nodes, chains within."""

import math

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class DoubleBinaryTree(Law):
    """Each rank is an inner node of one tree at most, so both use the full bandwidth.

    Latency grows with the logarithm of nodes.
    """

    formula = "2[(g-1) a_in + log2(R) a_out] + 2S/B"
    source = "Sanders, Speck, Traeff, 2009; NCCL 2.4 release notes"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        if fabric.ranks == 1:
            return 0.0
        hops = (fabric.per_node - 1) * fabric.within.latency_s
        hops += math.ceil(math.log2(fabric.nodes)) * fabric.across.latency_s
        return 2 * hops + 2 * work.gradient_bytes / fabric.slowest.bytes_per_s
