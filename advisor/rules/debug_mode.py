"""An aid for finding errors is left on."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

OFF = {
    "anomaly": "remove `torch.autograd.set_detect_anomaly(True)` (or the `detect_anomaly` block)",
    "profiler": "end the profiler after a few steps: `schedule(wait=1, warmup=1, active=3, repeat=1)`",
    "launch_blocking": "unset `CUDA_LAUNCH_BLOCKING`",
    "gradcheck": "move `torch.autograd.gradcheck` from the training program into a test",
    "distributed_debug": "unset `TORCH_DISTRIBUTED_DEBUG`",
}  # in the order in which they cost


class DebugMode(Rule):
    """Aids for finding errors check or record every operation, and they stay on until someone removes them.

    Anomaly detection keeps a stack for each operator and looks for NaN in each gradient: steps ran at 0.32
    to 0.78 of their speed. `CUDA_LAUNCH_BLOCKING` makes the host wait for each kernel. Switch the aid off
    once the error is found; the numbers that the program computes stay the same.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "debugging aids: a trace does not tell which are on"
    threshold = "any aid that costs time here is on (PyTorch tuning guide)"
    knobs = ("detect_anomaly",)
    explains = ("idle_device", "unattributed_time", "unstable_steps")

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None:
            return self.not_applicable("debugging aids", "no steps were recorded")
        found = [aid for aid in OFF if aid in run.debug and _costs(aid, profile)]
        if not found:
            return self.passed("0 debugging aids are on")
        free = profile.replays.debug_off
        advice = f"{OFF[found[0]][0].upper()}{OFF[found[0]][1:]}; the numbers stay the same."
        evidence = {"aids": found}
        if found == ["anomaly"] and free is not None:
            return self.opportunity(
                f"{percent(free.share)} of each step goes to anomaly detection",
                self.measured(free),
                advice=advice,
                location=run.debug_location,
                evidence=evidence,
            )
        return self.diagnostic(
            f"{len(found)} debugging aid{'s' * (len(found) > 1)} left on: {', '.join(found)}",
            advice=advice,
            location=run.debug_location,
            evidence=evidence,
            knobs=self.knobs if "anomaly" in found else (),
        )


def _costs(aid: str, profile: Profile) -> bool:
    """An environment variable may be set where nothing reads it."""
    if aid == "launch_blocking":
        return profile.device.startswith("cuda")
    return aid != "distributed_debug" or profile.ranks is not None
