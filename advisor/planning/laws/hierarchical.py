"""Reduce-scatter within nodes, all-reduce of the shares across, all-gather within."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class Hierarchical(Law):
    """Each rank sends across only its share, the g-th part."""

    formula = "2(g-1)/g S/B_in + 2(R-1)/R (S/g)/B_out, and latencies"
    source = "Goyal and others, 2017; NCCL CollNet and Horovod hierarchical all-reduce"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        nodes, g = fabric.nodes, fabric.per_node
        inner = 2 * (g - 1) * (fabric.within.latency_s + work.gradient_bytes / g / fabric.within.bytes_per_s)
        share = work.gradient_bytes / g
        outer = 2 * (nodes - 1) * (fabric.across.latency_s + share / nodes / fabric.across.bytes_per_s)
        return inner + outer
