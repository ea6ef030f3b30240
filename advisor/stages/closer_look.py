"""The program looked at closely within a tuning run: before the search, and once more as recommended.

The process in which the program was measured is looked at, and goes on as the one that the search shares, if
its steps take what they took before. All that looks closely is off by then, but three traces stay. Replays
have trained on one batch again and again, without updates or with other batch sizes: losses and weights are
no longer those of the program. What the machine can do was measured in it: its peak of memory is not that of
the program. And allocators have seen larger blocks. The search compares times within it, and nothing else.
"""

import math

from advisor.profiles.facts.profile import Profile
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing.measure import median, robust_sigma
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import Interrupted, SessionEnded
from advisor.tuners.supervision.failures import TrialFailed

DIAGNOSIS_SHARE = 0.1  # of the budget
DIAGNOSIS_S = 45.0  # at most
LEAST_DIAGNOSIS_S = 6.0  # beside starting the program; in less nothing is learnt
LEAST_DIAGNOSIS_STEPS = 15  # that are watched, inspected and recorded at least
LOOK_AGAIN_S = 8.0  # for the winner, beside starting it twice
LOOK_AGAIN_STEPS = 30  # that this is at least
LAST_SHARE = 0.8  # of the time left, for a profile at the end: what it has begun by then it still ends
SLOTS_AFTER = 3  # at most, by which the process shows that it behaves as before
AS_BEFORE = 0.05  # log ratio of step times that counts as the same on any machine
SIGMAS = 3.0  # of the slots before, where they spread by more
QUEUE_S = 2.0  # at most, to empty the queue that workers filled meanwhile


def look_closely(bench: MeasuredBench) -> list[str]:
    """Profile the program, where the budget has room; the bench learns what it shows.

    The baseline's process is used, and kept for the search where it is as before.

    Returns:
        What could not be done, and why.
    """
    budget_s, baseline = bench.settings.budget_s, bench.baseline
    startup_s = 0.0 if baseline.session is not None else baseline.startup_s
    least = max(LEAST_DIAGNOSIS_S, LEAST_DIAGNOSIS_STEPS * baseline.step_s)
    limit = min(max(DIAGNOSIS_S, least), max(DIAGNOSIS_SHARE * budget_s, 2 * startup_s))
    if bench.left_s <= 4 * limit or limit < startup_s + least:
        return ["the budget left no time to profile: findings rest on the baseline alone"]
    diagnosis = bench.closer_look(bench.clock() + limit)
    profile, notes = bench.profile, diagnosis.notes
    try:
        profile = diagnosis.look()
    except (TrialFailed, SessionEnded) as end:
        notes = [f"the diagnosis failed, findings rest on the baseline alone: {end}"]
    except Interrupted:  # the search is told again, and ends with what there is
        notes = ["interrupted while profiling: findings rest on the baseline alone"]
    baseline.session, changed = _goes_on(bench, profile, diagnosis.session)
    bench.learn(profile)
    return [*notes, *changed]


def _goes_on(
    bench: MeasuredBench, profile: Profile, session: Running | None
) -> tuple[Running | None, list[str]]:
    """The process for the search, or ``None`` and why: one that is not as before is ended."""
    if session is None or not session.alive:
        return None, []
    reason = "ranks that trained apart no longer agree"
    if profile.replays.communication_off is None:
        try:
            reason = _changed(bench, session)
        except TrialFailed as failed:
            reason = failed.failure.message
        except (SessionEnded, Interrupted):
            return None, []
    if not reason:
        return session, []
    session.kill()
    return None, [f"the search starts a process of its own after the profile: {reason}"]


def _changed(bench: MeasuredBench, session: Running) -> str:
    """How its steps differ from those of the baseline; empty where noise explains it."""
    baseline, steps = bench.baseline, bench.arena.steps()
    depth = bench.arena.queue_depth(bench.arena.present)
    drop = max(1, min(depth, int(QUEUE_S / baseline.step_s)))
    times = [math.log(slot.mean_s) for slot in baseline.slots]
    after: list[float] = []
    while len(after) < SLOTS_AFTER:  # one that is as before suffices
        after.append(math.log(session.slot(steps, drop=0 if after else drop).mean_s))
        difference = median(after) - median(times)
        if abs(difference) <= max(AS_BEFORE, SIGMAS * robust_sigma(times)):
            return ""
    return f"its steps take {math.exp(difference):.2f} times what they took before"


def look_again_s(bench: MeasuredBench, *, starts: bool) -> float:
    """Seconds of a profile of the winner, with or without those of starting it twice."""
    steps_s = LOOK_AGAIN_STEPS * bench.arena.step_s
    return max(LOOK_AGAIN_S, steps_s) + (2 * bench.baseline.startup_s if starts else 0.0)


def look_again(
    bench: MeasuredBench, outcome: Outcome, running: Running | None = None
) -> tuple[Profile | None, list[str]]:
    """Profile what is recommended, so that the report shows where the bottleneck moved.

    Args:
        bench: The program's.
        outcome: Says what is recommended.
        running: A process under that setting, warmed up and at a step border, which is ended here; one is
            started where there is none that lives.

    Returns:
        What it shows, if a change is recommended, and what could not be done.
    """
    if outcome.verdict != "change":
        if running is not None:
            running.kill()
        return None, []
    seconds = look_again_s(bench, starts=running is None)
    deadline = bench.clock() + min(seconds, LAST_SHARE * bench.room_s)
    try:
        return bench.diagnosis(deadline, outcome.config, session=running).again(), []
    except (TrialFailed, SessionEnded) as end:
        return None, [f"the recommended setting could not be profiled: {end}"]
