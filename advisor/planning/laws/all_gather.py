"""Every rank ends with the shares of all."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class AllGather(Law):
    """The other half of an all-reduce."""

    formula = "(n-1) a + (n-1)/n S/B"
    source = "Thakur, Rabenseifner, Gropp, 2005; NCCL runs it as a ring"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        link, n = fabric.slowest, fabric.ranks
        return (n - 1) * (link.latency_s + work.gradient_bytes / n / link.bytes_per_s)
