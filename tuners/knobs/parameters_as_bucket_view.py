"""How updated parameters travel under ZeRO."""

from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySwitch


class ParametersAsBucketView(StrategySwitch):
    """Lays the parameters of one rank side by side in memory, so that a single broadcast sends them all.

    Without it every parameter is a message of its own. It saves the time of many small messages where a
    model has many small parameters, and copies nothing. The effect was not measured. Parameters become views
    of flat buffers, which lose any other memory format, so it is not set beside `channels_last`.
    """

    semantics = Semantics.EXACT
    strategies = ("zero",)

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: Weights are to have a memory format that flat buffers have not.
        """
        if config.get("parameters_as_bucket_view") == "on" and config.get("channels_last", "off") != "off":
            raise Refused("views of flat buffers cannot be laid out as channels_last")

    def change(self, value: str) -> Change:
        return Change(f"ZeroRedundancyOptimizer(..., parameters_as_bucket_view={value == 'on'})")
