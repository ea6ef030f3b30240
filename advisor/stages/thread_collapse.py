"""Threads that spin beside other load: seen in the unchanged program, and told to sleep in all runs alike."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.base.settings import Settings, Value
from advisor.profiles.derived.disturbance import COLLAPSED
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Slot

CONTENDED_SHARE = 0.15  # of one CPU, used by other processes while the program ran
PASSIVE: dict[str, Value] = {"omp_wait_policy": "passive"}
MOST_SHARE = 0.1  # of the budget, that a second start may take
TOLD = "threads collapse under other load on this machine"
COLLAPSE = f"{TOLD}; times are not those of a quiet one"

EVERY = "every run, the unchanged program's too, has OMP_WAIT_POLICY=PASSIVE"
ALSO = "set it as well wherever other programs run"
RESUMED = f"threads collapsed under other load when this study began: {EVERY}; {ALSO}"


class ThreadsCollapsed(Exception):
    """The unchanged program is not measured on, since its threads spin; ``step_s`` is what a step took."""

    def __init__(self, step_s: float) -> None:
        super().__init__(TOLD)
        self.step_s = step_s


def contended(slots: Sequence[Slot]) -> bool:
    """Whether other processes used CPU time beside some slots."""
    return sum(slot.other_cpu_s for slot in slots) > CONTENDED_SHARE * max(_wall_s(slots), 1e-9)


def collapsed(slots: Sequence[Slot], threads: int, waits: float) -> bool:
    """Whether threads that compute had little CPU time beside other load.

    Args:
        slots: Of the program.
        threads: Of torch.
        waits: Share (0 to 1) of the time in which it waited for data, and no thread computes.
    """
    computed_s = (1 - waits) * _wall_s(slots)
    busy = sum(slot.cpu_s for slot in slots) / max(computed_s, 1e-9)
    return threads >= 2 and contended(slots) and busy < COLLAPSED * threads


def waited(phases: StepPhases | None) -> float:
    """Share (0 to 1) of a step in which the program waits for data."""
    return 0.0 if phases is None or phases.step_ms <= 0 else min(1.0, phases.input_wait_ms / phases.step_ms)


def with_sleep(settings: Settings) -> Settings:
    """Settings under which waiting threads of all runs sleep."""
    return replace(settings, fixed={**settings.fixed, **PASSIVE})


def sleeps(settings: Settings) -> bool:
    """Whether waiting threads sleep in all runs."""
    return PASSIVE.items() <= settings.fixed.items()


def may_sleep(settings: Settings, profile: Profile, startup_s: float) -> bool:
    """Whether waiting threads of all runs can be told to sleep: nobody has decided how they wait.

    Args:
        settings: What the user fixed, or wants tried.
        profile: Of the program as it is.
        startup_s: From starting it to its first step: it is started once more.
    """
    knob = next(iter(PASSIVE))
    decided = knob in settings.fixed or knob in settings.knobs or settings.on != "here"
    if decided or startup_s > MOST_SHARE * settings.budget_s:
        return False
    try:
        return PASSIVE[knob] in KNOBS[knob].choices(profile)
    except Refused:
        return False


def told(spinning_s: float, sleeping_s: float) -> str:
    """What a user is told; seconds of a step before and after."""
    return f"{TOLD} ({1e3 * spinning_s:.0f} ms a step): {EVERY} ({1e3 * sleeping_s:.0f} ms); {ALSO}"


def _wall_s(slots: Sequence[Slot]) -> float:
    return sum(sum(slot.step_s) for slot in slots)
