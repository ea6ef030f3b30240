"""Micro-batches of a pipeline."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class PipelineChunks(StrategySetting[int]):
    """Into how many micro-batches a pipeline splits each batch, so that all its stages have something to do.

    The first and the last stage wait while a pipeline of `p` stages fills and empties: with `m` micro-batches
    a stage is idle for (p-1)/(m+p-1) of the time, 1/5 with two stages and four micro-batches. More of them
    leave less idle time, but each is a smaller operation and one more message. A batch that has no such
    number of equal parts is split into the largest number of them below.
    """

    semantics = Semantics.ROUNDING
    strategies = ("pipeline",)
    default = 4

    def values(self) -> list[int]:
        return [4, 2, 8]

    def choices(self, profile: Profile) -> list[int]:
        if profile.machine.places < 2:
            raise Refused("one process has no stages")
        size = _batch_size(profile)
        chosen = [value for value in self.values() if size is None or size % value == 0]
        if len({*chosen, self.default}) == 1:
            raise Refused(f"a batch of {size} has no other number of equal parts")
        return [self.default, *(value for value in chosen if value != self.default)]

    def check(self, value: int, profile: Profile) -> None:
        size = _batch_size(profile)
        if value != self.default and size is not None and size % value:
            raise Refused(f"a batch of {size} cannot be split into {value} equal parts")

    def change(self, value: int) -> Change:
        return Change(f"schedule = ScheduleGPipe(stage, n_microbatches={value}, loss_fn=loss_function)")


def _batch_size(profile: Profile) -> int | None:
    return profile.loader.batch_size if profile.loader is not None else None
