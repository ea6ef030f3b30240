"""One line of the program takes much of the step, and nothing that is known explains it."""

from collections import defaultdict
from pathlib import PurePath

from advisor.advice.finding import Finding, Kind
from advisor.advice.named_calls import instead_of
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.asking_lines import asks
from advisor.profiles.derived.eligibility import share_of_step
from advisor.profiles.derived.whole_steps import runs_steps
from advisor.profiles.facts.observed import LineCalls, Location
from advisor.profiles.facts.profile import Profile, StepPhases

THRESHOLD = 0.20  # of the step; a part that large is worth a name (set by experiment)
PLAIN_MS = 0.05  # of an operator, from where computing outweighs the call; dispatch takes some microseconds
NEEDED = 0.5  # relative error of the ceiling: part of such code is needed, as for `unattributed_time`
BY_ENGINE = ("backward", "optimizer")  # a line that starts these is not where their time is


class HotLine(Rule):
    """Where no rule knows the fault, the line with the most time is the place to look.

    The program's threads are looked at every few milliseconds, and each sample counts for the innermost line
    of the user's own code. What large operators take at that line is plain computing and counts as none: left
    are Python, calls of many small operators, and waiting. It is told where what is known explains less than
    half of it. Look at what the line does in each step: do it less often, once for many, or with larger
    operators.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "which line runs: is met by sampling the program"
    threshold = (
        "a line with 20 % of the step beside large operators, known findings less than half (by experiment)"
    )
    fallback = True

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not profile.hotspots:
            return self.not_applicable("lines of the program", "need steps that are looked at closely")
        window = profile.window
        if window is None or not any(op.location for op in window.ops):
            return self.not_applicable("operators by line", "need steps recorded with places")
        lines = self_shares(profile, phases)
        place = max(lines, key=lambda each: lines[each], default=None)
        if place is None or lines[place] < THRESHOLD:
            most = lines[place] if place is not None else 0.0
            return self.passed(f"{percent(most)} of each step is at one line beside large operators")
        if asks(profile, place):
            return self.passed(
                f"{percent(lines[place])} of each request is the model, beside large operators"
            )
        ops = [op for op in window.ops if op.location is not None and _same(op.location, place)]
        small = share_of_step(profile, sum(op.self_ms for op in ops if not _is_plain(op.self_ms, op.calls)))
        calls = sum(op.calls for op in ops)
        in_calls = small >= lines[place] / 2
        line = _calls_of(profile, place)
        what = f"{calls:.0f} operators are called there" if calls else "no operator is called there"
        name = f"{PurePath(place.file).name}:{place.line}"
        call = next((s.call for s in profile.hotspots if s.call and _same(s.location, place)), "")
        at = f"{name}, in `{call}`" if call else name
        within = ", called by backward" * any(s.inner and s.location == place for s in profile.hotspots)
        return self.opportunity(
            f"{percent(lines[place])} of each step is at {at}{within}, beside large operators: {what}",
            self.timeline(lines[place], NEEDED),
            kind=Kind.HEADROOM if in_calls else self.kind,
            advice=instead_of(call, name)
            or f"Look at what {name} does in each step: do it less often, "
            + ("or in fewer, larger operators." if in_calls else "or outside of the loop."),
            location=place,
            evidence={
                "operators_per_step": round(calls, 1),
                "call": call,
                "functions": list(line.functions) if line is not None else [],
                "function_calls_per_step": line.calls if line is not None else None,
                "lines": {
                    str(each): round(share, 3)
                    for each, share in sorted(lines.items(), key=lambda item: -item[1])[:5]
                },
            },
        )


def self_shares(profile: Profile, phases: StepPhases) -> dict[Location, float]:
    """Share (0 to 1) of the step at each line that was met, without what large operators take there."""
    met: dict[Location, float] = defaultdict(float)
    waits = profile.loader is not None and profile.loader.num_workers > 0
    started = _met_in(profile, "backward") | _met_in(profile, "optimizer")  # of the rest they hold nothing
    called = {spot.location for spot in profile.hotspots if spot.inner}
    for spot in profile.hotspots:
        is_part = hasattr(phases, f"{spot.phase}_ms") and (spot.inner or spot.phase not in BY_ENGINE)
        around = spot.phase == "other" and spot.location in started
        if (
            is_part
            and not around
            and not runs_steps(profile, spot.location)
            and not (waits and spot.phase == "input_wait")
        ):
            met[spot.location] += spot.share * phases.share(spot.phase)
    ops = profile.window.ops if profile.window is not None else ()
    for place in met:
        plain_ms = sum(
            op.self_ms
            for op in ops
            if op.location is not None
            and (place in called or op.phase not in BY_ENGINE)
            and _same(op.location, place)
            and _is_plain(op.self_ms, op.calls)
        )
        met[place] = max(0.0, met[place] - share_of_step(profile, plain_ms))
    return met


def _met_in(profile: Profile, phase: str) -> set[Location]:
    return {spot.location for spot in profile.hotspots if spot.phase == phase and not spot.inner}


def _is_plain(self_ms: float, calls: float) -> bool:
    return calls > 0 and self_ms / calls >= PLAIN_MS


def _same(one: Location, other: Location) -> bool:
    return (one.file, one.line) == (other.file, other.line)


def _calls_of(profile: Profile, place: Location) -> LineCalls | None:
    lines = [line for line in profile.line_calls if _same(line.location, place)]
    return max(lines, key=lambda line: line.calls, default=None)
