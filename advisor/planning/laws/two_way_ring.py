"""Two rings in opposite directions, half of each chunk on either."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class TwoWayRing(Law):
    """As many steps as one ring; each moves half as much either way."""

    formula = "2(n-1) a + (n-1)/n S/B, where links carry both ways at once"
    source = "Jain, Sabharwal, 2010; the bidirectional ring of the TPU papers"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        link, n = fabric.slowest, fabric.ranks
        return 2 * (n - 1) * (link.latency_s + work.gradient_bytes / n / 2 / link.bytes_per_s)
