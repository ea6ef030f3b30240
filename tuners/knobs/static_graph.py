"""Whether DistributedDataParallel may rely on every step being like the first."""

from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySwitch


class StaticGraph(StrategySwitch):
    """Tells `DistributedDataParallel` that the same parameters get gradients, in the same way, in every step.

    torch then learns in the first step which parameters get none, so that it need not look for them in each
    step, and sends gradients as soon as the last use of a parameter is done, which allows reentrant
    checkpointing. A model whose used parameters change from step to step cannot be trained so. The effect
    was not measured; without unused parameters there is little to gain.
    """

    semantics = Semantics.ROUNDING
    strategies = ("ddp",)

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: Parameters without gradient are to be looked for as well.
        """
        if config.get("static_graph") == "on" and config.get("find_unused_parameters") == "on":
            raise Refused("static_graph finds unused parameters itself; find_unused_parameters adds nothing")

    def change(self, value: str) -> Change:
        return Change(f"DistributedDataParallel(model, static_graph={value == 'on'})")
