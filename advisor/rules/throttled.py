"""The machine gave this run less speed than it has."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.disturbance import HOT_C, THROTTLED, throttling
from advisor.profiles.facts.profile import Profile


class Throttled(Rule):
    """A limit slowed the processor while the run was measured: a CPU quota, heat, or power.

    A container that has used up its quota stands still until the next period, and a hot or power-limited
    GPU lowers its clock. Times measured meanwhile are those of the limit, not of the program, so every
    finding about time is marked. Raise the quota or use fewer threads, look after cooling, or raise the power
    limit; then measure again.
    """

    family = Family.HOST
    kind = Kind.RISK
    on_traces = "clocks, temperatures and quotas: a trace does not hold them"
    threshold = (
        f"device clock below 75 % of nominal (nvbench), device at {HOT_C:.0f} degrees Celsius "
        "(TraceML), or the CPU quota hit in more than 5 % of its periods (set by experiment)"
    )
    explains = ("unstable_steps",)
    timed = False

    def check(self, profile: Profile) -> Finding:
        host = profile.host
        if host is None:
            return self.not_applicable("limits of the machine", "no steps were watched")
        facts = {
            "throttled_share": host.throttled_share,
            "clock_share": host.clock_share,
            "gpu_temperature_c": host.gpu_temperature_c,
        }
        known = {name: fact for name, fact in facts.items() if fact is not None}
        if not known:
            return self.not_applicable("quota and clock", "no cgroup quota and no GPU was found")
        limits = throttling(profile)
        if not limits:
            return self.passed(f"0 of {len(known)} limits reached")
        return self.diagnostic(
            f"{len(limits)} of {len(known)} limits reached: {'; '.join(limits)}",
            advice=_advice(profile),
            evidence=known,
        )


def _advice(profile: Profile) -> str:
    host, run = profile.host, profile.run
    if host is not None and (host.throttled_share or 0.0) > THROTTLED:
        if run is not None and run.num_threads > 1:
            return f"Use fewer than {run.num_threads} threads, or raise the CPU quota; measure again."
        return "Raise the container's CPU quota and measure again."
    return "Look at `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`, remove the cause, and measure again."
