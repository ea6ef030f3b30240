"""Parameters split within each node, their shares all-reduced across nodes."""

from dataclasses import replace

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.fsdp import Fsdp
from advisor.planning.laws.ring import Ring


class Hybrid(Law):
    """What is sharded stays on fast links; only the g-th part of the gradients goes across."""

    formula = "fsdp within the node + all-reduce of S/g across"
    source = "Zhao and others, 2023 (HYBRID_SHARD); Zhang and others, 2022 (MiCS)"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds."""
        share = replace(work, gradient_bytes=work.gradient_bytes / fabric.per_node)
        return Fsdp().seconds(work, fabric.one_node) + Ring().seconds(share, fabric.one_rank_per_node)
