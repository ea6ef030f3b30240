"""The order in which the stages of a pipeline compute."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySetting

CLASSES = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B"}


class Schedule(StrategySetting[str]):
    """Whether a stage computes all forwards before the backwards, or alternates between them.

    `gpipe` sends all micro-batches forward through the stages and then all of them backward; every stage
    keeps the activations of all micro-batches until then. `1f1b` begins a backward as soon as the last stage
    can, so that stage number `s` of `p` keeps those of `p - s` micro-batches only, counted from 0. Both leave
    a stage idle for the same share of the time, (p-1)/(m+p-1) with `m` micro-batches, and give the same
    gradients up to rounding. `1f1b` needs as many micro-batches as stages, and pays where memory is short.
    They were not measured against each other; both ran on two cores.
    """

    semantics = Semantics.ROUNDING
    strategies = ("pipeline",)
    default = "gpipe"

    def values(self) -> list[str]:
        return list(CLASSES)

    def choices(self, profile: Profile) -> list[str]:
        if profile.machine.places < 2:
            raise Refused("one process has no stages")
        return self.values()

    def change(self, value: str) -> Change:
        name = CLASSES[value]
        return Change(
            f"from torch.distributed.pipelining import {name}\n"
            f"schedule = {name}(stage, n_microbatches, loss_fn=loss_function)"
        )
