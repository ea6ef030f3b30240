"""Where gradients lie under DistributedDataParallel."""

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySwitch


class GradientAsBucketView(StrategySwitch):
    """Lets gradients lie in the buckets in which they are sent, instead of beside them.

    This saves memory of the size of all gradients from the second step on, and the copies into the buckets
    and back where gradients are kept between steps. Gradients are then views, on which `detach_()` raises. On
    two cores it made 1174 to 1240 samples/s on a small convolution network and 6986 to 7393 on large linear
    layers, which cannot be told apart from `ddp` without it.
    """

    semantics = Semantics.ROUNDING
    strategies = ("ddp",)

    def change(self, value: str) -> Change:
        return Change(f"DistributedDataParallel(model, gradient_as_bucket_view={value == 'on'})")
