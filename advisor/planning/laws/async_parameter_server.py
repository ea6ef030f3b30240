"""Workers go on without waiting for each other; the servers' links are still shared."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.parameter_server import ParameterServer


class AsyncParameterServer(Law):
    """No barrier, so nobody waits for the slowest; gradients are up to w - 1 updates old.

    While all servers together keep up, a worker pays its own link alone. Beyond that a worker's step is as
    long as its turn at the servers, less what it computes meanwhile.
    """

    formula = "max(2S/B_w, 2 w S/(s B_s) - computing), staleness up to w - 1"
    source = "Dean and others, 2012; Ho and others, 2013"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        if fabric.ranks == 1:
            return 0.0
        own = 2 * (fabric.slowest.latency_s + work.gradient_bytes / fabric.slowest.bytes_per_s)
        return max(own, ParameterServer().seconds(work, fabric) - work.compute_s)
