"""Stages hold v chunks of the model each, so the pipeline fills in smaller bites."""

from advisor.planning.fabric import Fabric
from advisor.planning.law import Law, Work
from advisor.planning.laws.gpipe import Gpipe


class Interleaved(Law):
    """The bubble divides by the number of chunks, the messages multiply by it."""

    formula = "bubble (p-1)/(v m)"
    source = "Narayanan and others, 2021 (Megatron-LM), section 2.2.2"

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The bubble of one step in seconds."""
        return Gpipe().seconds(work, fabric) / work.chunks
