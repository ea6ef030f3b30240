"""Updating the parameters takes a large part of the step."""

from advisor.advice.finding import Ceiling, Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import OptimizerFacts, Profile, StepPhases
from advisor.profiles.facts.replayed import Share

THRESHOLD = 0.1  # of the step; set by experiment


class OptimizerBound(Rule):
    """The optimizer reads and writes every parameter, its gradient and its state, once per update.

    That costs memory traffic in proportion to the size of the model, however small the batch, and time
    for many small operations where parameters are updated one by one. The ceiling is the step without its
    update less the time that this traffic needs at the measured speed of memory: reading and writing
    parameters and state, reading gradients.
    Ask for the fused form: `torch.optim.AdamW(..., fused=True)`. Otherwise update less often, by larger
    batches or by accumulating gradients (both change training), or share the state between ranks.
    """

    family = Family.OPTIMIZER
    kind = Kind.WASTE
    threshold = "optimizer at least 10 % of the step (set by experiment)"
    knobs = ("optimizer_implementation", "accumulation", "zero")

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if not profile.optimizers:
            return self.not_applicable("optimizer", "no update of one was seen")
        share = update_share(profile, phases)
        said = f"{percent(share)} of each step updates parameters"
        if share < THRESHOLD:
            return self.passed(said)
        largest = max(profile.optimizers, key=lambda optimizer: optimizer.parameter_bytes or 0)
        fusible = [optimizer for optimizer in profile.optimizers if can_fuse(optimizer)]
        knobs = tuple(
            knob
            for knob, sensible in (
                ("optimizer_implementation", bool(fusible)),
                ("accumulation", True),
                ("zero", profile.ranks is not None),
            )
            if sensible
        )
        asked_for_loop = any(optimizer.foreach is False for optimizer in fusible)
        floor = floor_ms(profile)
        return self.opportunity(
            said,
            update_ceiling(self, profile, phases),
            kind=Kind.WASTE if asked_for_loop else Kind.HEADROOM,
            knobs=knobs,
            advice=_advice(fusible),
            location=largest.location,
            evidence={
                "optimizer_ms": round(phases.optimizer_ms, 4),
                "step_ms": round(phases.step_ms, 4),
                "floor_ms": round(floor, 4) if floor is not None else None,
                "implementation": largest.implementation,
            },
        )


def update_share(profile: Profile, phases: StepPhases) -> float:
    """Share of the step that goes to updates: of host time, or what a replay is sure of if that is more.

    Where there is a device it is at most what the device updates and waits for launches: a host that is
    ahead of it costs nothing.
    """
    off = profile.replays.optimizer_off
    return max(_timed_share(profile, phases), off.low if off is not None else 0.0)


def _timed_share(profile: Profile, phases: StepPhases) -> float:
    share, device = phases.share("optimizer"), None if profile.window is None else profile.window.device
    if device is None or device.time is None or device.time.total_ms <= 0:
        return share
    waiting = dict(device.time.idle)
    spent = dict(device.kernels_ms).get("optimizer", 0.0)
    spent += waiting.get("launch", 0.0) + waiting.get("other", 0.0)
    return min(share, spent / device.time.total_ms)


def update_ceiling(rule: Rule, profile: Profile, phases: StepPhases) -> Ceiling:
    """The share of updates less what their memory traffic needs, where that is known.

    A replay that other programs have blurred, so that it holds nothing at all and the timed share too, says
    no more than the times do.
    """
    needed = (floor_ms(profile) or 0.0) / phases.step_ms if phases.step_ms > 0 else 0.0
    off, timed = profile.replays.optimizer_off, _timed_share(profile, phases)
    if off is None or (off.low - needed < rule.least <= timed - needed and off.high >= timed):
        return rule.timeline(timed - needed)
    share, low, high = (max(0.0, bound - needed) for bound in (off.share, off.low, off.high))
    return rule.measured(Share(share, low, high))


def floor_ms(profile: Profile) -> float | None:
    """Milliseconds to read and write parameters and state and to read gradients, at memory speed.

    Nothing for what fits in the largest cache, which memory speed does not bound; ``None`` where unknown.
    """
    rates = profile.rates
    if rates is None or not rates.memory_sequential:
        return None
    parameters = [optimizer.parameter_bytes for optimizer in profile.optimizers]
    states = [optimizer.state_bytes for optimizer in profile.optimizers]
    if None in parameters or None in states:
        return None
    held, kept = sum(size or 0 for size in parameters), sum(size or 0 for size in states)
    on_host = profile.device == "cpu"
    if on_host and 2 * held + kept <= max((size for _, size in rates.caches), default=0):
        return 0.0
    return 1000 * (3 * held + 2 * kept) / rates.memory_sequential


def can_fuse(optimizer: OptimizerFacts) -> bool:
    """Whether a fused form exists, is not used, and suits what the optimizer updates."""
    excluded = optimizer.differentiable or optimizer.sparse_gradients
    return optimizer.has_fused and not optimizer.fused and not excluded


def _advice(fusible: list[OptimizerFacts]) -> str:
    if fusible:
        return (
            f"Ask for the fused form: `torch.optim.{fusible[0].name}(..., fused=True)`; sums may round "
            "differently."
        )
    return (
        "Update half as often: call `optimizer.step()` after every second `backward()`; this changes "
        "training like twice the batch, so scale `lr` and compare the loss."
    )
