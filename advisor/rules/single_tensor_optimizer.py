"""The optimizer updates one parameter after the other."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.rules.optimizer_bound import can_fuse, floor_ms, update_ceiling, update_share

THRESHOLD = 0.05  # of the step; set by experiment


class SingleTensorOptimizer(Rule):
    """An optimizer in its for-loop form runs a dozen small operations for every parameter.

    A model of a hundred tensors then needs more than a thousand operations per update; where tensors are
    small, starting them takes longer than computing. The ceiling is that of `optimizer_bound`.
    `fused=True` computes an update in one kernel: 1.38 to 1.49 times the speed for Adam on a small MLP
    (2-core CPU). `foreach=True` groups parameters by operation and gains on a GPU only; it needs about
    one more copy of the parameters. On a CPU torch chooses the for-loop unless asked for more.
    """

    family = Family.OPTIMIZER
    kind = Kind.HEADROOM
    threshold = "updates parameter by parameter (PyTorch pattern matcher) in at least 5 % of the step"
    knobs = ("optimizer_implementation",)
    explains = ("optimizer_bound",)

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if not profile.optimizers:
            return self.not_applicable("optimizer", "no update of one was seen")
        on_gpu = profile.device.startswith("cuda")
        single = [optimizer for optimizer in profile.optimizers if _is_single(optimizer, profile)]
        if not single:
            return self.passed("0 optimizers update parameter by parameter")
        better = [optimizer for optimizer in single if _has_better(optimizer, on_gpu)]
        if not better:
            where = "a GPU" if on_gpu else "a CPU"
            return self.not_applicable(f"faster form of {single[0].name}", f"there is none for {where}")
        share = update_share(profile, phases)
        said = f"{percent(share)} of each step updates parameters one by one"
        if share < THRESHOLD:
            return self.passed(said)
        worst = max(better, key=lambda optimizer: optimizer.parameter_bytes or 0)
        form = "fused" if can_fuse(worst) else "foreach"
        cost = "sums may round differently" if form == "fused" else "it needs more memory while updating"
        floor = floor_ms(profile)
        return self.opportunity(
            said,
            update_ceiling(self, profile, phases),
            kind=Kind.WASTE if any(optimizer.foreach is False for optimizer in better) else Kind.HEADROOM,
            advice=f"Change it to `torch.optim.{worst.name}(..., {form}=True)`; {cost}.",
            location=worst.location,
            evidence={
                "optimizer_ms": round(phases.optimizer_ms, 4),
                "step_ms": round(phases.step_ms, 4),
                "floor_ms": round(floor, 4) if floor is not None else None,
                "parameters": worst.parameters,
            },
        )


def _is_single(optimizer: OptimizerFacts, profile: Profile) -> bool:
    """Whether it runs its for-loop, as recorded, or by its arguments and torch's choice for the device."""
    if optimizer.fused or optimizer.foreach:
        return False
    if optimizer.foreach is False or (profile.device == "cpu" and profile.target_kind != "trace"):
        return True
    return profile.window is not None and profile.window.single_tensor_updates is True


def _has_better(optimizer: OptimizerFacts, on_gpu: bool) -> bool:
    return can_fuse(optimizer) or (on_gpu and optimizer.has_foreach and not optimizer.differentiable)
