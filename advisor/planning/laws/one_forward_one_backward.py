"""Stages of a pipeline, a backward after each forward once it is full (1F1B)."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.gpipe import Gpipe


class OneForwardOneBackward(Law):
    """The bubble of GPipe; activations of at most p micro-batches are kept instead of m."""

    formula = "step = (m+p-1)/m of the work of one stage, min(m, p) activations kept"
    source = "Narayanan and others, 2019 (PipeDream), 2021 (Megatron-LM)"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The bubble of one step in seconds."""
        return Gpipe().seconds(work, fabric)
