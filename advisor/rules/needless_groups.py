"""Parameters with the same settings are divided among many groups of the optimizer."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.profiles.facts.replayed import Share
from advisor.rules.optimizer_bound import can_fuse, update_ceiling, update_share

THRESHOLD = 0.05  # of the step, as for other forms of the update; set by experiment
MANY = 10  # groups beyond those that settings ask for; set by experiment


class NeedlessGroups(Rule):
    """An optimizer updates group by group, and each group pays for itself.

    The fused and foreach forms join the parameters of one group, never those of two: with a group for each
    parameter they do what the for-loop does. Collecting parameters, checking and starting the update come on
    top for every group. Groups are needed for different settings only; give all parameters of equal `lr`,
    `weight_decay` and so on to one group. The numbers stay the same up to rounding.
    """

    family = Family.OPTIMIZER
    kind = Kind.WASTE
    on_traces = "groups of the optimizer: a trace does not hold them"
    threshold = (
        f"{MANY} groups more than settings, in an update of at least 5 % of the step (set by experiment)"
    )
    explains = ("optimizer_bound", "single_tensor_optimizer", "launch_bound")

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if not profile.optimizers:
            return self.not_applicable("optimizer", "no update of one was seen")
        counted = [each for each in profile.optimizers if _groups(each) is not None]
        if not counted:
            return self.not_applicable("groups of the optimizer", "need a run of the program")
        worst = max(counted, key=_needless)
        groups, distinct = _groups(worst) or (1, 1)
        said = f"{groups} group{'s' * (groups != 1)} of parameters with {distinct} "
        said += f"different setting{'s' * (distinct != 1)}"
        share = update_share(profile, phases)
        if groups - distinct < MANY or share < THRESHOLD:
            return self.passed(said)
        whole = update_ceiling(self, profile, phases)
        needless = 1 - distinct / groups
        ceiling = (
            self.measured(Share(whole.share * needless, whole.low * needless, whole.high * needless))
            if whole.source == "replay"
            else self.timeline(whole.share * needless)
        )
        return self.opportunity(
            f"{percent(share)} of each step updates {said}",
            ceiling,
            advice=_advice(worst),
            location=worst.location,
            evidence={
                "groups": groups,
                "distinct_groups": distinct,
                "optimizer_ms": round(phases.optimizer_ms, 4),
                "step_ms": round(phases.step_ms, 4),
                "implementation": worst.implementation,
            },
        )


def _groups(optimizer: OptimizerFacts) -> tuple[int, int] | None:
    """Groups that there are, and groups that their settings need."""
    if optimizer.groups is None or optimizer.distinct_groups is None:
        return None
    return optimizer.groups, optimizer.distinct_groups


def _needless(optimizer: OptimizerFacts) -> int:
    groups, distinct = _groups(optimizer) or (1, 1)
    return groups - distinct


def _advice(optimizer: OptimizerFacts) -> str:
    merged = "Give parameters of equal settings one group: "
    merged += f"{optimizer.distinct_groups} instead of {optimizer.groups}"
    if can_fuse(optimizer):
        return f"{merged}, with `fused=True`, which joins what is in one group; sums may round differently."
    return f"{merged}; updates stay the same."
