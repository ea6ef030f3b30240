"""Stages of a pipeline, all forwards before all backwards."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work


class Gpipe(Law):
    """Stages stand idle while the pipeline fills and drains.

    ``compute_s`` is one stage's work for the whole batch; every micro-batch's activations are kept until its
    backward.
    """

    formula = "step = (m+p-1)/m of the work of one stage"
    source = "Huang and others, 2019"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The bubble of one step in seconds."""
        return work.compute_s * (fabric.ranks - 1) / work.micro_batches
