"""The model computes on the CPU of a machine that has an accelerator."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

LAUNCH_US = 10.0  # per operator; a mean kernel below this is bound by its launch (TraceLens)
TOO_SMALL_MS = 1.0  # of compute per step, where the launches alone take about as long (set by experiment)


class ModelOnCpu(Rule):
    """All parameters are on the CPU while the machine offers an accelerator that torch can use.

    A dense step runs many times faster there, and the accelerator stands idle meanwhile. Move the model and
    each batch: `model.to("cuda")` before the optimizer is built, `batch.to("cuda", non_blocking=True)` in
    the loop. Very small models are an exception: launching their operators takes longer than computing
    them, so they are not reported.

    The ceiling is modelled: compute time less 10 us for each operator that must be launched.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "accelerators of the machine: a trace does not tell of those that were not used"
    threshold = (
        f"an accelerator, no parameter on it, compute of {TOO_SMALL_MS:.0f} ms or more (set by experiment)"
    )
    recorded = True

    def check(self, profile: Profile) -> Finding:
        machine, phases, window = profile.machine, profile.phases, profile.window
        if not machine.gpus:
            return self.not_applicable("accelerator", "this machine has none")
        cpu_only_torch = machine.torch.endswith("+cpu")
        if not machine.cuda and not cpu_only_torch:
            return self.not_applicable("accelerator", "torch.cuda.is_available() is False")
        if not profile.roots:
            return self.not_applicable("model", "none was seen")
        elsewhere = {device for root in profile.roots for device in root.devices if device != "cpu"}
        if elsewhere:
            return self.passed(
                f"{len(profile.roots)} models seen, parameters on {', '.join(sorted(elsewhere))}"
            )
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("time of computing", "no steps were recorded")
        if phases.compute_ms < TOO_SMALL_MS:
            return self.passed(
                f"{phases.compute_ms:.2g} ms of compute per step: too little for an accelerator"
            )
        name = machine.gpus[0].name
        title = (
            f"{percent(phases.share('forward', 'backward', 'optimizer'))} of each step computes on the CPU"
        )
        title += f" while {name} is idle"
        advice = (
            "Install a torch that can use it: the present build is for the CPU only."
            if cpu_only_torch
            else 'Move the model and each batch: `model.to("cuda")`, `batch.to("cuda", non_blocking=True)`; '
            "results differ by rounding."
        )
        location = next((root.location for root in profile.roots if root.location is not None), None)
        evidence = {"compute_ms": round(phases.compute_ms, 4), "accelerators": len(machine.gpus)}
        if window is None:
            return self.diagnostic(title, advice=advice, location=location, evidence=evidence)
        launches_ms = window.dispatches * LAUNCH_US / 1e3
        return self.opportunity(
            title,
            self.modelled((phases.compute_ms - launches_ms) / phases.step_ms),
            advice=advice,
            location=location,
            evidence={**evidence, "operators_per_step": round(window.dispatches)},
        )
