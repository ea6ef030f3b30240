"""Threads of a runtime with a pool of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.events import Request
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.mechanisms.forms.pools import OWN_POOL, refuse_without

if TYPE_CHECKING:
    from torch.nn import Module


class IntraOpNumThreads(Knob[int]):
    """How many threads ONNX Runtime or OpenVINO shares one operation among; 0 is as many as torch has.

    By default ONNX Runtime takes one for each core of the machine, whatever the process may use: in a
    container with two CPUs of 64 that is thirty times too many. Small models are often fastest with one.
    """

    semantics = Semantics.ROUNDING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.1
    acts_on = ("forward",)
    follows = "runtime"
    written = ("intra_op_num_threads",)

    def __init__(self) -> None:
        self._runtime = "torch"

    def values(self) -> range:
        return range(4097)

    def present(self, profile: Profile) -> int:
        return 0

    def choices(self, profile: Profile) -> list[int]:
        refuse_without(profile, *OWN_POOL)
        own = profile.run.num_threads if profile.run is not None else 1
        allowed = profile.machine.cpus_allowed
        tried = {1, min(profile.machine.physical_cores, allowed), allowed} - {own}
        if not tried:
            raise Refused("this process may use one CPU only")
        return [0, *sorted(tried)]

    def prepare(self, config: Config, present: Config) -> None:
        """Learn who runs the model."""
        self._runtime = str(config.get("runtime", "torch"))

    def serve(
        self, function: Callable[..., Any], root: "Module", request: Request, value: int
    ) -> Callable[..., Any]:
        """What the runtime made with so many threads.

        Raises:
            Refused: The runtime has no threads of its own.
        """
        if self._runtime not in OWN_POOL:
            raise Refused(f"runtime={self._runtime} has no threads of its own")
        return function

    def change(self, value: int) -> Change:
        if value == 0:
            return Change("options.intra_op_num_threads = torch.get_num_threads()  # of the session")
        return Change(f"options.intra_op_num_threads = {value}  # of the session")
