"""Workers send gradients to s servers and fetch parameters, all waiting for all."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class ParameterServer(Law):
    """Either a worker's own link or the servers' links together decide, whichever is slower.

    Ranks count workers; servers stand beside them. Both ways are counted one after the other.
    """

    formula = "max(2S/B_w, 2 w S/(s B_s))"
    source = "Li and others, 2014; Jiang and others, 2020 (BytePS), section 2"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        if fabric.ranks == 1:
            return 0.0
        link = fabric.slowest
        served = min(work.server_bytes_per_s, link.bytes_per_s)
        own = 2 * work.gradient_bytes / link.bytes_per_s
        return 2 * link.latency_s + max(own, own * fabric.ranks * link.bytes_per_s / work.servers / served)
