"""The result put together from what the stages found."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from advisor.advice.advise import in_order, summary
from advisor.advice.finding import Finding
from advisor.base.settings import Settings
from advisor.profiles.facts.profile import Profile
from advisor.result import attribution, wording
from advisor.result.benches import BenchUse
from advisor.result.document import (
    Adopted,
    Budget,
    Interval,
    Loss,
    Noise,
    OverProcesses,
    PlannedRun,
    ProfileSummary,
    Proposal,
    Recommendation,
    ResultData,
    Trial,
    Untried,
)
from advisor.result.document import Baseline as BaselineData
from advisor.result.header import header_of_run, target_of
from advisor.result.stored_step import LEAST_PROCESSES, over_processes
from advisor.result.words import STOPPED
from advisor.rules import RULES
from advisor.stages.baseline import Baseline
from advisor.stages.batch_size import NAMES as OF_THE_BATCH
from advisor.stages.batch_size import Batches
from advisor.stages.confirming import unconfirmed
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.confirming.request_tails import answered_together
from advisor.stages.diagnosing.guidance import with_outcomes
from advisor.stages.diagnosing.result_findings import as_data, phases_ms, profile_summary, replays
from advisor.stages.latencies import latency, slow_requests, with_limit
from advisor.stages.planned import planned_run
from advisor.stages.training_needed import training_needed
from advisor.stages.trials import as_loss, as_ratio, rate, spread, step_interval
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import Estimate, median
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.measuring import StoppedBy
from advisor.tuners.space.space import NotTried, Space

NO_ROOM = "the time budget had no room to try and confirm it"
ENDS = {"estimate", "low", "high"}
LEAST_DETECTABLE = 0.001  # relative; what is told of smaller differences is rounding
WORTH_A_PROPOSAL = 1.02  # ratio; the lower bound must exceed it


def result(
    settings: Settings,
    baseline: Baseline,
    space: Space,
    outcome: Outcome,
    trials: Sequence[Trial],
    not_tried: Sequence[NotTried],
    warnings: list[str],
    study: str,
    *,
    digest: str,
    launches: int,
    stopped_by: StoppedBy,
    seconds: float,
    batches: Batches,
    findings: Sequence[Finding],
    notes: Sequence[str],
    after: Profile | None,
    arena: Arena,
    benches: list[BenchUse],
    finished: bool = True,
) -> ResultData:
    """The whole of ``result.json``; without the trials where it is not ``finished``."""
    request = settings.target
    profile = baseline.profile
    own = latency(baseline.slots, [baseline.startup_s]) if profile.serves else None
    recommendation = _recommendation(settings, baseline, space, outcome, batches)
    recommendation.proposals += estimates(trials, profile, space.present)
    recommendation.proposals += training_needed(outcome, trials, space.present, settings.max_loss)
    own, recommendation.latency = with_limit(
        own,
        recommendation.latency,
        baseline.slots,
        outcome.tails,
        settings.latency_limit_s,
        answered_together(profile),
    )
    untried = _untried(not_tried, outcome)
    if batches.searched and batches.advice.reason:
        refused = batches.advice.refused if batches.is_changed(outcome.config.get("batch_size")) else None
        untried.append(Untried(knob="batch_size", value=refused, reason=_rejected(batches.advice.reason)))
    elif batches.is_unjudged:
        untried.append(Untried(knob="batch_size", reason=batches.advice.reason))
    if finished:
        untried += _not_reached(space, trials, {entry.knob for entry in untried}, stopped_by)
    option = "knobs=" if request.kind == "objects" else "--knob"
    judged = with_outcomes(
        findings, recommendation, trials, untried, space.present, settings.knobs, option,
        collapsed=baseline.thread_collapse,
    )  # fmt: skip
    return ResultData(
        **header_of_run(
            settings.command,
            target_of(request, digest=digest, launches=launches),
            profile.machine.as_json(),
            settings.seed,
        ),
        study=study,
        objective=settings.objective,
        min_gain=settings.min_gain,
        noise=Noise(
            aa_ratio=as_ratio(baseline.aa),
            smallest_detectable=_detectable(baseline, outcome),
            contended=baseline.contended,
            thread_collapse=baseline.thread_collapse,
            never_stable=arena.never_stable,
            excluded_slots=dict(sorted(arena.excluded.items())),
        ),
        baseline=BaselineData(
            config=dict(space.present),
            step_ms=step_interval(baseline.slots),
            over_processes_ms=_over_processes(baseline, outcome, settings.confidence),
            throughput=rate(baseline.slots, baseline.sampled),
            peak_bytes=baseline.profile.peak_bytes,
            steps_peak_bytes=baseline.steps_peak_bytes,
            latency=own,
            **_losses(baseline, outcome, trials),
        ),
        profile=_profile(profile, findings, notes, after),
        trials=list(trials) if finished else [],
        findings=as_data(in_order(judged, RULES)),
        recommendation=recommendation,
        batch=batches.known(),
        planned=_planned(settings, baseline, space, recommendation, batches),
        not_tried=untried,
        warnings=warnings,
        budget=Budget(seconds=seconds, trials=len(trials), stopped_by=stopped_by),
        benches=benches,
    )


def _profile(
    profile: Profile, findings: Sequence[Finding], notes: Sequence[str], after: Profile | None
) -> ProfileSummary:
    found = profile_summary(profile, summary=summary(findings, profile), notes=notes)
    if after is not None:
        found.phases_after_ms = phases_ms(after)
        found.replays_after = replays(after.replays)
    return found


def _recommendation(
    settings: Settings, baseline: Baseline, space: Space, outcome: Outcome, batches: Batches
) -> Recommendation:
    changed = outcome.config.changed(space.present)
    speedup = unconfirmed.measured(outcome.decision) or baseline.aa
    whole = outcome.numerics.get("")
    kept, tails = outcome.verdict == "keep", outcome.tails
    return Recommendation(
        verdict=outcome.verdict,
        config=dict(outcome.config),
        speedup=as_ratio(speedup),
        time_ratio=None if outcome.time is None else as_ratio(outcome.time),
        memory_ratio=None if kept else _memory_ratio(outcome),
        numerics=whole.verdict if whole is not None else "not_checked",
        numerics_reason=whole.reason if whole is not None else "",
        break_even_steps=None if kept else outcome.break_even_steps(baseline.step_s),
        compile_cold_s=outcome.compile_s,
        compile_warm_s=outcome.compile_warm_s,
        cpu_speedup=None if outcome.cpu is None else as_ratio(outcome.cpu),
        lasted_steps=None if outcome.longer is None else outcome.longer.steps,
        growth_bytes_per_step=None if outcome.longer is None else outcome.longer.growth_bytes_per_step,
        latency=None if tails is None else latency(tails.second, tails.startups_s),
        slow_requests=None if tails is None else slow_requests(tails, settings.confidence),
        reason="; ".join(
            filter(None, [outcome.reason, "" if kept else _unverified(settings, outcome, space)])
        ),
        changes=[] if kept else [_adopted(name, outcome, space) for name in changed],
        proposals=_proposals(outcome, batches),
    )


def _unverified(settings: Settings, outcome: Outcome, space: Space) -> str:
    """What a batch that throughput alone chose must be called."""
    before, after = space.present.get("batch_size"), outcome.config.get("batch_size")
    if settings.objective != "throughput" or before == after:
        return ""
    return f"batch size {before} -> {after} by throughput only: that it learns as much is not verified"


def _planned(
    settings: Settings, baseline: Baseline, space: Space, found: Recommendation, batches: Batches
) -> PlannedRun | None:
    run = baseline.profile.run
    if baseline.profile.serves:
        return None  # requests come as long as somebody asks
    worth = math.exp(batches.sure_worth(found.config, space.present))  # of a sample: no clock shows it
    by_clock = found.time_ratio if settings.objective == "memory" else found.speedup
    speedup = None
    if found.verdict == "change" and by_clock is not None:
        speedup = {end: ratio / worth for end, ratio in by_clock.model_dump(include=ENDS).items()}
    before, after = space.present.get("batch_size"), found.config.get("batch_size")
    return planned_run(
        baseline.profile,
        baseline.step_s,
        speedup,
        steps=settings.steps_planned or (run.training_steps if run is not None else None),
        batch_ratio=int(after) / int(before) if before and after else 1.0,
        compile_s=found.compile_cold_s,
        price_per_hour=settings.price_per_hour,
    )


def _adopted(name: str, outcome: Outcome, space: Space) -> Adopted:
    value = outcome.config[name]
    change = KNOBS[name].change(value)
    estimate = outcome.contributions.get(name)
    numerics = outcome.numerics.get(name) or outcome.numerics.get("")
    return Adopted(
        knob=name,
        **{"from": space.present[name]},
        to=value,
        semantics=KNOBS[name].meaning(outcome.config).value,
        contribution=None if estimate is None else as_ratio(estimate),
        numerics="not_checked" if numerics is None else numerics.verdict,
        snippet=change.snippet,
        environment=change.environment,
    )


def estimates(trials: Sequence[Trial], profile: Profile, present: Mapping[str, Value]) -> list[Proposal]:
    """Of several ranks under a script that knows nothing of them: the fastest, if it is faster at all."""
    measured = [
        (trial.against_baseline, trial)
        for trial in trials
        if trial.against_baseline is not None and trial.config.get("ranks", 1) != present.get("ranks", 1)
    ]
    if profile.target_kind != "script" or not measured:
        return []
    ratio, best = max(measured, key=lambda each: each[0].estimate)
    if ratio.low < WORTH_A_PROPOSAL:
        return []
    return [
        Proposal(
            knob="strategy",
            to="ddp",
            measured=ratio,
            reason=f"an estimate of the throughput of {best.config['ranks']} ranks: each of them evaluated "
            "and saved, and nothing was checked but that they saw different data",
            snippet=KNOBS["strategy"].change("ddp").snippet,
        )
    ]


def _proposals(outcome: Outcome, batches: Batches) -> list[Proposal]:
    """The best larger batch that is not part of the recommendation, if it clearly gives more throughput."""
    best = max(batches.measured, key=lambda measured: measured.estimate.estimate, default=None)
    if batches.searched and batches.settings.objective == "throughput":
        return []  # what counts was searched
    if best is None or math.exp(best.estimate.low) < WORTH_A_PROPOSAL:
        return []
    taken = outcome.config.get("batch_size")
    if taken == best.batch_size:
        return []
    learning_rate = KNOBS["lr_scaling"].change(best.lr_scaling).snippet
    chosen = batches.advice.chosen
    better = taken if chosen is None and batches.is_changed(taken) else chosen and chosen.batch_size
    if better == best.batch_size:
        why = outcome.reason or "it was not confirmed"
    else:
        why = f"by goodput batch size {better} is better" if better else "convergence unverified"
    why = batches.advice.reason or why
    return [
        Proposal(
            knob="batch_size",
            to=best.batch_size,
            measured=as_ratio(best.estimate),
            reason=f"throughput only, as a larger batch changes what is learnt per sample: {why}; "
            f"with it goes the learning rate rule {best.lr_scaling}",
            snippet=f"{KNOBS['batch_size'].change(best.batch_size).snippet}; {learning_rate}",
            beside={} if best.lr_scaling == "none" else {"lr_scaling": best.lr_scaling},
        )
    ]


def _untried(not_tried: Sequence[NotTried], outcome: Outcome) -> list[Untried]:
    entries = [Untried(knob=entry.knob, value=entry.value, reason=entry.reason) for entry in not_tried]
    for name, reason in outcome.rejected.items():
        entries.append(Untried(knob=name, value=None, reason=_rejected(reason)))
    return entries


def _rejected(reason: str) -> str:
    return f"{wording.REJECTED}: {reason}"


def _not_reached(
    space: Space, trials: Sequence[Trial], told: Collection[str], stopped_by: StoppedBy
) -> list[Untried]:
    """Knobs of which no trial had another value than the present one, and nothing says why."""
    reason = f"{STOPPED[stopped_by]} before"
    if stopped_by == "converged":
        reason = attribution.NOT_REACHED
    elif stopped_by == "budget":
        reason = NO_ROOM
    return [
        Untried(knob=knob, value=None, reason=reason)
        for knob in space.choices
        if knob not in told
        and knob not in OF_THE_BATCH
        and all(trial.config.get(knob, space.present[knob]) == space.present[knob] for trial in trials)
    ]


def _over_processes(baseline: Baseline, outcome: Outcome, level: float) -> OverProcesses | None:
    """A step of the unchanged program in its first process, and in those of the confirmation."""
    alone = 1e3 * median([slot.mean_s for slot in baseline.slots])
    values = [[value] for value in (alone, *outcome.unchanged_ms)]
    if len(values) < LEAST_PROCESSES:
        return None
    told = over_processes(values, level).interval
    return OverProcesses(**told.model_dump(), processes=len(values), confidence=level)


def _detectable(baseline: Baseline, outcome: Outcome) -> float:
    """What the last confirmation could have shown, or else a usual one, as far as the noise tells."""
    confirmed = unconfirmed.measured(outcome.decision)
    if outcome.tells is not None:
        return max(baseline.detectable, outcome.tells)
    if confirmed is None or confirmed.instances == 1:
        return max(baseline.detectable, _half(baseline.aa))
    return max(_half(confirmed), LEAST_DETECTABLE)


def _half(estimate: Estimate) -> float:
    return math.expm1(min(10.0, (estimate.high - estimate.low) / 2))


def _losses(baseline: Baseline, outcome: Outcome, trials: Sequence[Trial]) -> dict[str, Any]:
    """The curve is kept where trials of several ranks are drawn beside it."""
    if baseline.losses and any(trial.ranks for trial in trials):
        return {"loss": as_loss(baseline.losses), "losses": spread(baseline.losses)}
    return {"loss": _loss(outcome)}


def _loss(outcome: Outcome) -> Loss:
    if outcome.reference is None or not outcome.reference.losses:
        return Loss()
    return as_loss(outcome.reference.losses)


def _memory_ratio(outcome: Outcome) -> Interval | None:
    """Peak memory of the winner over the baseline's, from the runs of the numerics gate."""
    peaks = outcome.reference.peaks if outcome.reference is not None else ()
    if not peaks or not outcome.winner_peaks or min(peaks) <= 0:
        return None
    ratios = sorted(winner / peak for winner in outcome.winner_peaks for peak in peaks)
    return Interval(estimate=ratios[len(ratios) // 2], low=ratios[0], high=ratios[-1])
