"""The search within a tuning run: how long it may take, what it looks at first, and what it may use."""

from collections.abc import Sequence
from functools import partial

from advisor.advice.finding import Finding
from advisor.base.settings import MAX_TRIALS
from advisor.stages import expected
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.confirmation_plan import reserve_s
from advisor.stages.diagnosing.guidance import priorities
from advisor.stages.reach import Reach
from advisor.stages.study import Study
from advisor.stages.trials import TrialLog
from advisor.tuners.search.search import Search
from advisor.tuners.space.memory_model import memory_limit
from advisor.tuners.space.space import Space

LEAST_SEARCH_SHARE = 0.15  # of the budget, whatever came before it took
SEARCH_SHARE = 0.65  # of the budget at most, before the confirmation begins
LATEST_SHARE = 0.9  # of the budget, as long as there is nothing to confirm


def how_long(bench: MeasuredBench, space: Space) -> str:
    """What is told of the time that the search will take."""
    return expected.said(
        bench.arena,
        space,
        bench.baseline.startup_s,
        trials=bench.settings.trials,
        left_s=bench.left_s,
        later_s=reserve_s(bench.arena, bench.baseline, bench.settings),
    )


def why_apart(bench: MeasuredBench, space: Space) -> list[str]:
    """What is told where settings of loaders are tried, and cannot be switched while the program runs."""
    knobs, profile = bench.arena.knobs, bench.profile
    tried = {
        "batch sizes": [name for name in space.choices if name == "batch_size"],
        "settings of loaders": [
            name for name in space.choices if knobs[name].of_iterator and name != "batch_size"
        ],
    }
    reasons = {what: knobs[names[0]].fixed_in(profile) for what, names in tried.items() if names}
    apart = {what: reason for what, reason in reasons.items() if reason is not None}
    return [f"{what} are tried in processes of their own: {reason}" for what, reason in apart.items()]


def planned_search(
    bench: MeasuredBench,
    space: Space,
    study: Study,
    trials: TrialLog,
    batches: Batches,
    findings: Sequence[Finding],
    reach: Reach,
) -> Search:
    """A search that leaves the rest of the budget to the confirmation.

    Args:
        bench: What is measured on.
        space: What may be tried.
        study: Has the sampler, and the numbers of earlier trials.
        trials: Keeps what is tried.
        batches: Learns here what a larger batch is worth, where the search has it among its knobs.
        findings: Say what to try first.
        reach: What can be confirmed.
    """
    settings, budget_s, profile = bench.settings, bench.settings.budget_s, bench.profile
    reserve = reserve_s(bench.arena, bench.baseline, settings)
    batches.learn_worth(bench.arena, space, profile, bench.deadline - reserve)
    least = bench.spent_s + LEAST_SEARCH_SHARE * budget_s
    end = max(least, min(budget_s - reserve, SEARCH_SHARE * budget_s))
    limit = memory_limit(profile, settings.max_memory)
    return Search(
        bench.arena,
        space,
        profile,
        study.optuna(bench.baseline.step_s),
        trials,
        deadline=bench.began + end,
        latest=bench.began + LATEST_SHARE * budget_s,
        max_trials=settings.trials or MAX_TRIALS,
        measured=trials.measured,
        priorities=priorities(findings),
        worth=partial(batches.worth, present=space.present),
        allow_training=settings.allow_training,
        # one change alone need not bring a program that uses more than it may below the limit
        limit_bytes=None if limit is None else max(limit, profile.peak_bytes),
        startup_s=bench.baseline.startup_s,
        least=reach.least,
        next_number=study.next_number(),
        clock=bench.clock,
        crew=bench.crew,
        limits=bench.launcher.limits,
        verdict_s=reach.verdict_s,
        begin_by=reach.begin_by,
    )
