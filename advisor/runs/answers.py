"""Whether a recommended form of a trained model still says the same on another CPU, or by other versions."""

import importlib.metadata
import math
from collections.abc import Mapping

from advisor.base.settings import OF_REQUESTS
from advisor.profiles.facts.profile import Profile
from advisor.result.artefact import Artefact
from advisor.result.check import Answers, Judged
from advisor.result.document import ProfileData, ResultData, Value
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.agreement import AgreementCheck
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.mechanisms.forms.artefact import cpu_flags
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import OutOfTime, TrialFailed

SHARE = 0.6  # of what is left, in which outputs are kept: nothing follows
NO_TIME = "the budget left no time to start the processes that answer: give a longer --budget"
UNKNOWN = "this version of advisor has no such knob"


def has_answers(reference: ResultData | ProfileData) -> bool:
    """Whether a result recommends a change of what answers requests."""
    is_of_requests = isinstance(reference, ResultData) and reference.objective in OF_REQUESTS
    return is_of_requests and bool(reference.recommendation and reference.recommendation.changes)


def form_differences(artefacts: list[Artefact]) -> list[str]:
    """How versions of packages and flags of the CPU differ from those that files were made with."""
    found: dict[str, None] = {}
    for each in artefacts:
        for name, version in each.versions.items():
            now = _version(name)
            if now != version:
                found[f"{name} {version} and {now}"] = None
        if set(each.cpu_flags) != (flags := set(cpu_flags())):
            found[f"a CPU with {_listed(set(each.cpu_flags))} and one with {_listed(flags)}"] = None
    return list(found)


def judged_answers(bench: MeasuredBench, reference: ResultData) -> Answers:
    """The recommended changes beside the program as it is, in fresh processes on unseen samples.

    Args:
        bench: On which the program has run unchanged; its process is ended.
        reference: Recommends changes of what answers requests.

    Raises:
        TrialFailed: The unchanged program fails.
        Interrupted: The user asked to stop.
    """
    changes = {change.knob: change.to for change in reference.recommendation.changes}
    rejected = _not_here(changes, bench.profile)
    if rejected:
        return _answers("refused", changes, rejected, "")
    space = build_space(KNOBS, bench.profile, fixed=bench.settings.fixed)
    winner = space.complete(changes)
    if not winner.changed(space.present):
        return _answers("accepted", changes, {}, "the program is that way now: there is nothing beside it")
    bench.baseline.end()
    check = AgreementCheck(bench, space, bench.settings.max_loss, SHARE)
    bench.arena.latest_start = bench.clock() + bench.room_s
    try:
        found = check.run(winner)
    except OutOfTime:
        return _answers("not_decidable", changes, {}, NO_TIME)
    except TrialFailed as failed:
        return _answers("refused", changes, {}, failed.failure.message)
    finally:
        bench.arena.latest_start = math.inf
    declined = {name: why for name, why in check.refused.items() if name in changes}
    if declined:
        return _answers("refused", changes, declined, "")
    if found.config == winner:
        return _answers("accepted", changes, {}, found.verdicts[""].reason)
    decided = found.verdicts[""].verdict == "drifts"
    return _answers("refused" if decided else "not_decidable", changes, found.rejected, found.reason)


def _answers(verdict: Judged, changes: Mapping[str, Value], rejected: Mapping[str, str], why: str) -> Answers:
    return Answers(verdict=verdict, changes=dict(changes), rejected=dict(rejected), why=why)


def _not_here(changes: Mapping[str, Value], profile: Profile) -> dict[str, str]:
    """Changes that cannot be made here, with the reason."""
    found = {}
    for name, value in changes.items():
        if name not in KNOBS:
            found[name] = UNKNOWN
            continue
        try:
            KNOBS[name].check(value, profile)
        except Refused as reason:
            found[name] = str(reason)
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _listed(flags: set[str]) -> str:
    return ", ".join(sorted(flags)) or "none of the known flags"
