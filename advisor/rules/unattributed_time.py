"""Time of a step that no known part of training covers."""

from pathlib import PurePath

from advisor.advice.finding import Finding, Kind
from advisor.advice.named_calls import instead_of
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.asking_lines import asks
from advisor.profiles.facts.observed import HotSpot
from advisor.profiles.facts.profile import Profile
from advisor.rules.exposed_communication import by_hand

THRESHOLD = 0.10  # of the step; TraceML warns at 10 %, and at 20 % again
LOOP_MS = 0.1  # per step of Python loop and schedule around the parts; more matters only beyond it
LEAST_MET = 0.1  # of the samples in no part, for a line to be named; set by experiment
BY_ENGINE = ("backward", "optimizer")  # a line that starts these is not where the rest of the time is
BY_HAND = (
    "Where {place} updates the parameters, let an optimizer do it, such as "
    "`torch.optim.SGD(..., fused=True)`: it updates all of them in one operator."
)
NEEDED = 0.5  # relative error of the ceiling: part of such code is needed, so medium begins at 20 %


class UnattributedTime(Rule):
    """Some of each step is neither waiting for data, nor model, optimizer, logging or communication.

    It is code of the training loop itself: metrics computed in Python, batches prepared by hand,
    conversions, bookkeeping. The device waits while it runs. Look at the line that was met most often, then
    move it out of the loop, do it every few steps, or prepare it in the loader's workers.

    A loop without a DataLoader is reported only when a line can be named, as its time is also the data's.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "what Python ran in no known part: is met by sampling the program"
    threshold = (
        f"time in no part at least 10 % of the step (TraceML), beyond {LOOP_MS} ms of loop and "
        "the cost of watching (set by experiment)"
    )

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("time in no part", "no steps were recorded")
        overhead_ms = LOOP_MS + (profile.watching or 0.0) * phases.step_ms
        exchanged = by_hand(profile)
        share = max(0.0, (phases.other_ms - overhead_ms) / phases.step_ms - exchanged)
        if share < THRESHOLD:
            beside = "the loop itself" if not exchanged else "exchanges between ranks and the loop itself"
            return self.passed(
                f"{percent(phases.share('other'))} of the step is in no known part: "
                f"{percent(share)} beside {beside}"
            )
        hottest = _hottest(profile)
        if hottest is None and profile.loader is None:
            return self.not_applicable(
                f"{percent(phases.share('other'))} of the step is in no known part",
                "without a DataLoader it may be the data, and no line was met in it",
            )
        if hottest is not None and asks(profile, hottest.location):
            return self.passed(
                f"{percent(phases.share('other'))} of the step is what a library does around the model at "
                f"{_place(hottest)}"
            )
        return self.opportunity(
            f"{percent(phases.share('other'))} of each step is in no known part{_named(hottest)}",
            self.timeline(share, NEEDED),
            advice=_advice(
                hottest,
                profile.loader is None or _of_model(profile, hottest),
                by_hand=profile.loader is None and not _of_model(profile, hottest) and not _clears(hottest),
                serves=profile.serves,
                of_loss=_of_loss(profile, hottest),
                updates=not profile.optimizers and _writes(hottest),
            ),
            location=hottest.location if hottest is not None else None,
            evidence={
                "other_ms": round(phases.other_ms, 4),
                "step_ms": round(phases.step_ms, 4),
                "share_of_line": round(hottest.share, 3) if hottest is not None else None,
            },
        )


def _hottest(profile: Profile) -> HotSpot | None:
    """The line that was met most, beside those that only start the update or backward."""
    started = {spot.location for spot in profile.hotspots if spot.phase in BY_ENGINE and not spot.inner}
    spots = [
        spot
        for spot in profile.hotspots
        if spot.phase == "other" and spot.location not in started and spot.share >= LEAST_MET
    ]
    return max(spots, key=lambda spot: spot.share, default=None)


def _clears(hottest: HotSpot | None) -> bool:
    """Whether the line clears gradients, which is no batch."""
    return hottest is not None and hottest.call.endswith("zero_grad")


def _writes(hottest: HotSpot | None) -> bool:
    """Whether the line changes a tensor in place, as an update by hand does."""
    return hottest is not None and hottest.call.endswith("_")


def _named(hottest: HotSpot | None) -> str:
    if hottest is None:
        return ""
    call = f", in `{hottest.call}`" if hottest.call else ""
    return f", {percent(hottest.share)} of it at {_place(hottest)}{call}"


def _of_loss(profile: Profile, hottest: HotSpot | None) -> bool:
    """Whether the loss may need what the line computes: it records a graph, or nobody looked closely."""
    at = None if hottest is None else (hottest.location.file, hottest.location.line)
    lines = [line for line in profile.line_calls if (line.location.file, line.location.line) == at]
    return not profile.line_calls or any(line.graphed for line in lines)


def _of_model(profile: Profile, hottest: HotSpot | None) -> bool:
    """Whether the line works with weights or with what the model answers, which workers do not have."""
    if hottest is None:
        return False
    at = (hottest.location.file, hottest.location.line)
    return any(
        (line.graphed or line.weights > 0 or line.frozen > 0)
        and (line.location.file, line.location.line) == at
        for line in profile.line_calls
    )


def _advice(
    hottest: HotSpot | None,
    stays: bool,
    *,
    serves: bool,
    of_loss: bool,
    by_hand: bool,
    updates: bool,
) -> str:
    if hottest is not None and serves:
        return f"Move what {_place(hottest)} does in front of the first request, or make it cheaper."
    if hottest is None:
        return "Look at what the loop does between `next(loader)`, the model and `optimizer.step()`."
    known = instead_of(hottest.call, _place(hottest)) if hottest.call else None
    if known is not None:
        return known
    if updates:
        return BY_HAND.format(place=_place(hottest))
    inside = f" in `{hottest.location.function}`" if hottest.location.function else ""
    if of_loss:
        return (
            f"Unless the loss needs what {_place(hottest)}{inside} computes, move it out of the loop or do "
            "it every few steps; else compute it with fewer operators."
        )
    if by_hand:
        return (
            f"Where {_place(hottest)}{inside} makes the batch, do it once before the loop, or in the workers "
            "of a `DataLoader`; else move it out of the loop, or do it every few steps."
        )
    instead = "do it every few steps" if stays else "into the loader's workers"
    return f"Move what {_place(hottest)}{inside} does out of the loop, or {instead}."


def _place(spot: HotSpot) -> str:
    return f"{PurePath(spot.location.file).name}:{spot.location.line}"
