"""Threads that wait for each other beside other load: seen as the program is, and fewer in all runs alike.

Beside a busy process two threads of a ResNet on two CPUs took four times as long as alone. With waiting
threads that sleep they took what one thread takes (0.34 s of CPU time a step, on one CPU), but with operators
of bf16, which meet more often, 3.8 times as long as one: so the CPUs that are busy are left alone.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import replace

from advisor.base.settings import Settings
from advisor.profiles.derived.disturbance import COLLAPSED
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.result.document import IN_PYTHON
from advisor.tuners.comparing.excluded import other_cpus, wall_s
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Slot

CONTENDED_SHARE = 0.15  # of one CPU, used by other processes while the program ran
LITTLE = 0.25  # of a CPU, beside which a thread still finds room
KNOB, VARIABLE = "num_threads", "OMP_NUM_THREADS"
MOST_SHARE = 0.1  # of the budget, that a second start may take
TOLD = "threads collapse under other load on this machine"
COLLAPSE = f"{TOLD}; times are not those of a quiet one"
ALSO = "compute with as many wherever other programs run"


class ThreadsCollapsed(Exception):
    """The unchanged program is not measured on, since its threads wait for each other.

    Attributes:
        step_s: What a step took, in seconds.
        room: Threads for which there is room beside the other load.
    """

    def __init__(self, step_s: float, room: int) -> None:
        super().__init__(TOLD)
        self.step_s, self.room = step_s, room


def contended(slots: Sequence[Slot]) -> bool:
    """Whether other processes used CPU time beside some slots."""
    return other_cpus(slots) > CONTENDED_SHARE


def collapsed(slots: Sequence[Slot], threads: int, waits: float) -> bool:
    """Whether threads that compute had little CPU time beside other load.

    Args:
        slots: Of the program.
        threads: Of torch.
        waits: Share (0 to 1) of the time in which it waited for data, and no thread computes.
    """
    computed_s = (1 - waits) * wall_s(slots)
    busy = sum(slot.cpu_s for slot in slots) / max(computed_s, 1e-9)
    return threads >= 2 and contended(slots) and busy < COLLAPSED * threads


def waited(phases: StepPhases | None) -> float:
    """Share (0 to 1) of a step in which the program waits for data."""
    return 0.0 if phases is None or phases.step_ms <= 0 else min(1.0, phases.input_wait_ms / phases.step_ms)


def room_beside(slots: Sequence[Slot], threads: int, cpus: int | None = None) -> int:
    """Threads that have a CPU of their own beside other load; fewer than there are.

    Args:
        slots: Beside which it ran.
        threads: Of torch.
        cpus: That the program may use; those of this process where ``None``.
    """
    cpus = len(os.sched_getaffinity(0)) if cpus is None else cpus
    return max(1, min(threads - 1, cpus - math.ceil(other_cpus(slots) - LITTLE)))


def with_threads(settings: Settings, threads: int) -> Settings:
    """Settings under which all runs compute with so many threads, as if the user had fixed that."""
    fixed = {**settings.fixed, KNOB: threads}
    if fixed == settings.fixed:
        return settings
    return replace(settings, fixed=fixed, command=_with_option(settings.command, f"{KNOB}={threads}"))


def may_be_fewer(settings: Settings, profile: Profile, startup_s: float) -> bool:
    """Whether all runs can compute with fewer threads: nobody has decided how many they are.

    Args:
        settings: What the user fixed, or wants tried.
        profile: Of the program as it is.
        startup_s: From starting it to its first step: it is started once more.
    """
    decided = KNOB in settings.fixed or KNOB in settings.knobs or VARIABLE in os.environ
    if decided or settings.ranks or settings.on != "here" or startup_s > MOST_SHARE * settings.budget_s:
        return False
    try:
        return len(KNOBS[KNOB].choices(profile)) > 1
    except Refused:
        return False


def told(collapsed_s: float, threads: int, now_s: float) -> str:
    """What a user is told; seconds of a step before, and with so many threads."""
    return f"{TOLD} ({1e3 * collapsed_s:.0f} ms a step): {_every(threads)} ({1e3 * now_s:.0f} ms); {ALSO}"


def told_again(threads: int) -> str:
    """What a user is told of a study that is resumed."""
    return f"threads collapsed under other load when this study began: {_every(threads)}; {ALSO}"


def _with_option(command: Sequence[str], fixed: str) -> tuple[str, ...]:
    """A command with ``--fix``, by which others measure as it was measured; a call in Python has none."""
    if not command or IN_PYTHON in command:
        return tuple(command)
    return (command[0], "--fix", fixed, *command[1:])


def _every(threads: int) -> str:
    number = f"{threads} thread" + "s" * (threads != 1)
    return f"every run, the unchanged program's too, computes with {number}"
