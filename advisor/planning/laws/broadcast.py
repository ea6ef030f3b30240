"""Sum on one root, then broadcast from it, one rank after the other."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class Broadcast(Law):
    """The root takes every gradient and sends every result, so its link carries all of it."""

    formula = "2(n-1)(a + S/B)"
    source = "Thakur, Rabenseifner, Gropp, 2005: the naive linear algorithm"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        link = fabric.slowest
        return 2 * (fabric.ranks - 1) * (link.latency_s + work.gradient_bytes / link.bytes_per_s)
