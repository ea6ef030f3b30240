"""All-reduce round a ring: each chunk goes round twice."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class Ring(Law):
    """Nearly the least bytes for any number of ranks, but a latency that grows with each one."""

    formula = "2(n-1) a + 2(n-1)/n S/B"
    source = "Patarasuk, Yuan, 2009; nccl-tests PERFORMANCE.md"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        link, n = fabric.slowest, fabric.ranks
        return 2 * (n - 1) * (link.latency_s + work.gradient_bytes / n / link.bytes_per_s)
