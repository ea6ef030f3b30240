"""The program looked at closely within a tuning run: before the search, and once more as recommended."""

from advisor.profiles.facts.profile import Profile
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.launching.session import Interrupted, SessionEnded
from advisor.tuners.supervision.failures import TrialFailed

DIAGNOSIS_SHARE = 0.1  # of the budget
DIAGNOSIS_S = 45.0  # at most
LEAST_DIAGNOSIS_S = 6.0  # beside starting the program; in less nothing is learnt
LOOK_AGAIN_S = 8.0  # for the winner, beside starting it twice


def look_closely(bench: MeasuredBench) -> list[str]:
    """Profile the program in a process of its own, where the budget has room; the bench learns what it shows.

    Returns:
        What could not be done, and why.
    """
    budget_s, startup_s = bench.settings.budget_s, bench.baseline.startup_s
    limit = min(DIAGNOSIS_S, max(DIAGNOSIS_SHARE * budget_s, 2 * startup_s))
    if bench.left_s <= 4 * limit or limit <= startup_s + LEAST_DIAGNOSIS_S:
        return ["the budget left no time to profile: findings rest on the baseline alone"]
    if not bench.arena.two_fit:
        bench.baseline.end()
    diagnosis = bench.diagnosis(bench.clock() + limit)
    try:
        bench.learn(diagnosis.run())
    except (TrialFailed, SessionEnded) as end:
        return [f"the diagnosis failed, findings rest on the baseline alone: {end}"]
    except Interrupted:  # the search is told again, and ends with what there is
        return ["interrupted while profiling: findings rest on the baseline alone"]
    return diagnosis.notes


def look_again(bench: MeasuredBench, outcome: Outcome) -> tuple[Profile | None, list[str]]:
    """Profile what is recommended, so that the report shows where the bottleneck moved.

    Returns:
        What it shows, if a change is recommended, and what could not be done.
    """
    if outcome.verdict != "change":
        return None, []
    deadline = bench.clock() + LOOK_AGAIN_S + 2 * bench.baseline.startup_s
    try:
        return bench.diagnosis(deadline, outcome.config).again(), []
    except (TrialFailed, SessionEnded) as end:
        return None, [f"the recommended setting could not be profiled: {end}"]
