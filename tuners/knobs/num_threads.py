"""Threads that share one operation on the CPU."""

import math
from typing import TYPE_CHECKING

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost, Window
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.optim import Optimizer

GRAIN_SIZE = 32768  # elements: torch divides no fewer of them among threads (at::internal::GRAIN_SIZE)
LONG_US = 50.0  # of one call: shorter ones are over before another thread has taken its part


class NumThreads(Knob[int]):
    """How many threads torch uses inside one operation on the CPU.

    Two threads instead of one gave, on a quiet machine, 1.34 to 1.41 times (MLP), 1.5 (LeNet),
    1.8 to 2.3 (ResNet) and 1.7 (BERT). With one other busy process the same two threads were 50 to
    550 times slower: both sat on one core and waited for each other. A run whose CPU time stays below
    0.8 x threads x wall time is therefore never compared. Fewer threads leave cores to loader workers.
    Sums are taken in another order, which showed as 1e-7 in the loss.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    usual_gain = 0.3
    live = True

    def values(self) -> range:
        return range(1, 4097)

    def present(self, profile: Profile) -> int:
        if profile.run is not None:
            return profile.run.num_threads
        return profile.machine.torch_default_threads or 1

    def choices(self, profile: Profile) -> list[int]:
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU")
        present = self.present(profile)
        allowed = profile.machine.cpus_allowed
        cores = min(profile.machine.physical_cores, allowed)
        tried = {*(2**n for n in range(cores.bit_length())), cores, allowed} - {present}
        if not tried:
            raise Refused("this process may use one CPU only")
        return [present, *sorted(tried)]

    def expected(self, profile: Profile, value: int) -> float | None:
        """By Amdahl's law, with the serial share that CPU time over wall time shows; with a replay by that.

        One thread shows nothing of how its work would divide but the sizes of its operators: few and small
        ones are never divided.
        """
        present, host, phases = self.present(profile), profile.host, profile.phases
        if host is not None and host.one_thread_step_ms and phases is not None and value == 1:
            return phases.step_ms / host.one_thread_step_ms
        if host is None or host.cpu_per_wall is None or present < 2:
            return 1.0 if value < present else self._of_sizes(profile.window, value)
        return _busy(_shared(min(host.cpu_per_wall, present), present), value) / max(1.0, host.cpu_per_wall)

    def _of_sizes(self, window: Window | None, value: int) -> float | None:
        """At most so many times as fast as with one thread; ``None`` where no sizes were recorded."""
        if window is None or not window.with_shapes:
            return None
        divided = sum(op.self_ms for op in window.ops if _divides(op))
        return _busy(min(1.0, divided / (window.clean_step_ms or window.step_ms)), value)

    def process(self, value: int) -> None:
        """Set the number of threads of this process."""
        import torch

        torch.set_num_threads(value)

    def optimizer(self, optimizer: "Optimizer", value: int) -> None:
        """Set it again at the first update: programs set their own number after importing torch."""
        self.process(value)

    def change(self, value: int) -> Change:
        return Change(f"torch.set_num_threads({value})", {"OMP_NUM_THREADS": str(value)})


def _divides(op: OpCost) -> bool:
    """Whether an operator may be divided among threads; one of which nothing tells may be."""
    long = 1e3 * op.self_ms >= LONG_US * op.calls
    return long or any(math.prod(shape) >= GRAIN_SIZE for shape in op.shapes)


def _shared(busy: float, threads: int) -> float:
    """Share (0 to 1) of the work that threads divide, of which ``busy`` CPUs are in use on average."""
    return max(0.0, min(1.0, (1 - 1 / max(1.0, busy)) / (1 - 1 / threads)))


def _busy(shared: float, threads: int) -> float:
    """CPUs in use on average: the speed over that of one thread."""
    return 1 / (1 - shared + shared / threads)
