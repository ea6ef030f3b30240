"""The search within a tuning run: how long it may take, what it looks at first, and what it may use."""

import math
from collections.abc import Sequence
from functools import partial

from advisor.advice.finding import Finding
from advisor.base.durations import write_duration
from advisor.base.settings import MAX_TRIALS
from advisor.base.unit import Unit
from advisor.stages import expected
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts
from advisor.stages.confirming.confirmation_plan import reserve_s
from advisor.stages.guidance import priorities
from advisor.stages.study import Study
from advisor.stages.trials import TrialLog
from advisor.tuners.comparing.affordable import (
    FEWEST,
    MOST,
    TELLING,
    pairs_within,
    seconds_to_tell,
    smallest_gain,
)
from advisor.tuners.comparing.ways import LIVE, WINDOWS
from advisor.tuners.search.costs import Costs
from advisor.tuners.search.race import WORTH
from advisor.tuners.search.search import Search
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.memory_model import memory_limit
from advisor.tuners.space.space import Space

LEAST_SEARCH_SHARE = 0.15  # of the budget, whatever came before it took
SEARCH_SHARE = 0.65  # of the budget at most, before the confirmation begins
CONFIRMED_SHARE = 0.5  # of what is left after the baseline, by which it is told what can be confirmed
HOPEFUL = 0.5  # of the smallest gain that can be confirmed, below which trying is a waste: estimates err
GROWS = 1.1  # times the budget that is needed: some of what comes before takes a share of it
MOST_TOLD = 9.0  # as a gain: the exact figure of what nobody gains says nothing
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


def how_fine(bench: MeasuredBench) -> str:
    """What is told of the smallest gain that half of the rest of the budget can confirm."""
    costs = Costs(bench.arena, bench.baseline.startup_s)
    pairs = pairs_within(CONFIRMED_SHARE * bench.left_s, costs.pair_s())
    smallest = _smallest(bench, CONFIRMED_SHARE * bench.left_s)
    if smallest is not None and smallest <= TELLING:
        return (
            f"the budget tells a gain of about {smallest:.0%} and more: {_counted(pairs)} of fresh processes"
        )
    needed_s = seconds_to_tell(TELLING, costs.pair_s(), bench.arena.sigma, costs.pair_quads, _way(bench))
    told = f"the budget tells no gain of {TELLING:.0%}: {_counted(pairs)} of fresh processes fit"
    if needed_s is None:
        return f"{told}, and the noise asks for more than {MOST}"
    return f"{told}; {_budget(bench.spent_s + needed_s / CONFIRMED_SHARE)} could"


def why_apart(bench: MeasuredBench, space: Space) -> list[str]:
    """What is told where settings of loaders are tried, and cannot be switched while the program runs."""
    loader = bench.profile.loader
    tried = any(bench.arena.knobs[name].of_iterator for name in space.choices)
    if not tried or loader is None or loader.fixed is None:
        return []
    return [f"settings of loaders are tried in processes of their own: {loader.fixed}"]


def too_small(bench: MeasuredBench, present: Configuration, nominee: Configuration, log_ratio: float) -> str:
    """Why the rest of the budget cannot confirm a nominee; empty where it may.

    Either the gain is far below what can be told, or there is no room for the least number of pairs.

    Args:
        bench: What is measured on.
        present: The program as it is.
        nominee: What the search would recommend.
        log_ratio: Of the nominee, by the search.
    """
    if not bench.arena.timed:
        return ""
    speed = math.exp(log_ratio)
    told = f"the best that was found, about {speed:.2f}x,"
    costs = ConfirmationCosts(bench, present, nominee, max(1.0, speed))
    if costs.least_s() > bench.room_s:
        budget_s = bench.spent_s + costs.least_s() / CONFIRMED_SHARE
        return (
            f"{told} could not be confirmed: its numbers, {FEWEST} pairs of processes and a longer run take "
            f"about {write_duration(costs.least_s())}, with {write_duration(max(0.0, bench.room_s))} left; "
            f"{_budget(budget_s)} could"
        )
    pairs = pairs_within(bench.left_s, costs.pairs_s(FEWEST) / FEWEST)
    smallest = smallest_gain(pairs, bench.arena.sigma, costs.quads, costs.how)
    if smallest is None or log_ratio >= HOPEFUL * math.log1p(smallest):
        return ""
    least = (
        f"the {1 + smallest:.2f}x" if smallest < MOST_TOLD else f"the gain of more than {1 + MOST_TOLD:g}x"
    )
    return f"{told} is far below {least} that the rest of the budget can confirm"


def planned_search(
    bench: MeasuredBench,
    space: Space,
    study: Study,
    trials: TrialLog,
    batches: Batches,
    findings: Sequence[Finding],
) -> Search:
    """A search that leaves the rest of the budget to the confirmation.

    Args:
        bench: What is measured on.
        space: What may be tried.
        study: Has the sampler, and the numbers of earlier trials.
        trials: Keeps what is tried.
        batches: Learns here what a larger batch is worth, where the search has it among its knobs.
        findings: Say what to try first.
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
        least=max(WORTH, HOPEFUL * math.log1p(_smallest(bench, CONFIRMED_SHARE * bench.left_s) or TELLING)),
        next_number=study.next_number(),
        clock=bench.clock,
        crew=bench.crew,
        verdict_s=partial(_verdict_s, bench, space.present),
    )


def _verdict_s(bench: MeasuredBench, present: Configuration, config: Configuration, score: float) -> float:
    """Seconds in which a gain can be confirmed; infinite where none is before the search ends."""
    if bench.settings.unit is not Unit.STEP or not bench.arena.timed:
        return math.inf
    return ConfirmationCosts(bench, present, config, math.exp(score)).least_s()


def _smallest(bench: MeasuredBench, seconds: float) -> float | None:
    """The smallest relative gain that so many seconds probably confirm; ``None`` where they confirm none."""
    costs = Costs(bench.arena, bench.baseline.startup_s)
    pairs = pairs_within(seconds, costs.pair_s())
    return smallest_gain(pairs, bench.arena.sigma, costs.pair_quads, _way(bench))


def _way(bench: MeasuredBench) -> str:
    """In which most settings are compared: what can be switched in one process differs least."""
    arena = bench.arena
    return WINDOWS if arena.queue_depth(arena.present) > 0 or arena.max_steps is not None else LIVE


def _budget(seconds: float) -> str:
    return f"`--budget {math.ceil(GROWS * seconds / 60)}m`"


def _counted(pairs: int) -> str:
    return f"{pairs} pair{'' if pairs == 1 else 's'}"
