"""How much power a GPU may draw."""

import os
import subprocess

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.mechanisms.power import (
    Limit,
    PowerError,
    put_back_at_exit,
    read_power_limit,
    set_power_limit,
)

STEPS = 4  # equal ones between the lowest and the highest limit


class PowerLimit(Knob[int]):
    """Limits the power of the GPU in watts, by which its clock follows.

    A lower limit saves energy and costs less speed than its share where memory, not arithmetic, is the
    bottleneck; a limit below the highest can be what holds a GPU back. The numbers stay the same. It was
    not measured.

    Setting it needs administrator rights. The limit belongs to the device: every program on it is
    affected, and it would outlive the trial. So it is tried only when it is named, one process at a
    time, and put back when that process has ended.
    """

    semantics = Semantics.EXACT
    units = BOTH
    named_only = True
    loading = True  # a limit is the device's: two processes side by side would share it
    acts_on = ("forward", "backward", "optimizer")

    def __init__(self) -> None:
        self._own: int | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def values(self) -> range:
        return range(1, 5001)

    def present(self, profile: Profile) -> int:
        return _limit(profile).watts

    def choices(self, profile: Profile) -> list[int]:
        limit = _limit(profile)
        _probe_right_to_set(limit)
        width = limit.highest - limit.lowest
        levels = {limit.highest - round(width * step / STEPS) for step in range(STEPS + 1)} - {limit.watts}
        if not levels:
            raise Refused(f"the GPU allows {limit.watts} W only")
        return [limit.watts, *sorted(levels, reverse=True)]

    def check(self, value: int, profile: Profile) -> None:
        limit = _limit(profile)
        if not limit.lowest <= value <= limit.highest:
            raise Refused(f"the GPU allows {limit.lowest} to {limit.highest} W")
        _probe_right_to_set(limit)

    def prepare(self, config: Config, present: Config) -> None:
        """Learn the limit to go back to."""
        own = present.get("power_limit")
        self._own = None if own is None else int(own)

    def process(self, value: int) -> None:
        """Set the limit until this process ends.

        Raises:
            Refused: This process may not.
        """
        try:
            limit = read_power_limit(os.environ.get("CUDA_VISIBLE_DEVICES"))
            if self._guard is None:
                own = limit.watts if self._own is None else self._own
                self._guard = put_back_at_exit(limit.uuid, own)
            set_power_limit(limit.uuid, value)
        except PowerError as error:
            raise Refused(str(error)) from None

    def change(self, value: int) -> Change:
        return Change(f"# with administrator rights: nvidia-smi -pl {value}")


def _limit(profile: Profile) -> Limit:
    if not profile.device.startswith("cuda"):
        raise Refused("the model runs on the CPU")
    if not hasattr(os, "pidfd_open"):
        raise Refused("the limit could not be put back on this system")
    try:
        return read_power_limit(os.environ.get("CUDA_VISIBLE_DEVICES"))
    except PowerError as error:
        raise Refused(str(error)) from None


def _probe_right_to_set(limit: Limit) -> None:
    """Set the limit to what it is: only the driver knows who may."""
    try:
        set_power_limit(limit.uuid, limit.watts)
    except PowerError as error:
        raise Refused(f"the power limit cannot be set: {error}") from None
