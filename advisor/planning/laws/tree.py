"""Sum up a binary tree, then broadcast down it."""

import math

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class Tree(Law):
    """Few steps, each with the whole gradient: for many ranks and small messages."""

    formula = "2 log2(n) (a + S/B)"
    source = "Thakur, Rabenseifner, Gropp, 2005"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        link = fabric.slowest
        levels = math.ceil(math.log2(fabric.ranks))
        return 2 * levels * (link.latency_s + work.gradient_bytes / link.bytes_per_s)
