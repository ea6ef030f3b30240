"""How many gradients travel in one message under DistributedDataParallel."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySetting

MIB = 2**20
OTHERS = (1, 5, 100)


class BucketCapMb(StrategySetting[int]):
    """The size of gradient buckets in MiB: a bucket is sent as soon as all of its gradients are computed.

    Small buckets start sending earlier and overlap better with backward, but every message has a price of its
    own; large ones use a slow network better. 25 is torch's own and begins with a bucket of 1 MiB. A gradient
    is never divided, so a bucket holds at least one. It does nothing where all gradients fit into 1 MiB. The
    effect was not measured.
    """

    semantics = Semantics.ROUNDING
    strategies = ("ddp",)
    default = 25

    def values(self) -> list[int]:
        return [1, 5, 25, 100]

    def choices(self, profile: Profile) -> list[int]:
        size = sum(root.parameter_bytes for root in profile.roots)
        if 0 < size <= MIB:
            raise Refused(f"all gradients, {size / MIB:.2g} MiB, fit into one bucket")
        several = [other for other in OTHERS if not size or other * MIB < size]
        one = [other for other in OTHERS if other not in several]
        return [self.default, *several, *one[:1]]

    def change(self, value: int) -> Change:
        if value == self.default:
            return Change("DistributedDataParallel(model)  # buckets of 25 MiB, the first of 1 MiB")
        return Change(f"DistributedDataParallel(model, bucket_cap_mb={value})")
