"""The device stands still for part of the step."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import CAPTURING
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import DeviceFacts, Gap

THRESHOLD = 0.15  # TraceLens; the TensorBoard plug-in warns below 50 % use, SageMaker below 70 %
BY_CAUSE = {
    "launch": "Launch fewer and larger kernels, as `torch.compile` or a larger batch does: the host is late.",
    "input": "Make batches ahead, in worker processes of the `DataLoader`: the device waits for data.",
    "starting": "Record later steps, as with `schedule(skip_first=10, ...)`: here the runtime still loads "
    "kernels or gets memory, which a run does once.",
    "device": "Look at other streams and processes: the work was launched, and the device did not begin it.",
}
LONG_GAP_MS = 500.0  # Nsight Systems reports single gaps from there


class IdleDevice(Rule):
    """Nothing runs on the GPU for part of each step, although the step is not over.

    It is a symptom: the device waits for the host, which loads data, waits for a value, launches too many
    small kernels or runs Python. The findings below it name the cause where one is known. Otherwise look at
    the host code in the largest gaps: move it out of the loop, do it every N steps, or do it while the device
    computes.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = "device idle more than 15 % of the step (TraceLens), or one gap of 500 ms (Nsight Systems)"
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or window.device is None:
            return self.not_applicable("device timeline", "needs a GPU")
        device = window.device
        if device.captures:
            return self.not_applicable("device timeline", CAPTURING)
        gaps = sorted(device.gaps, key=lambda gap: -gap.ms)
        share = device.idle_share
        if device.time is not None and device.time.earlier_ms:
            recorded = device.time.recorded
            share, gaps = recorded.share("idle"), [gap for gap in gaps if gap.ms <= recorded.idle_ms]
        title = f"{percent(share)} of each step leaves the device idle"
        if share <= THRESHOLD and not (gaps and gaps[0].ms >= LONG_GAP_MS):
            return self.passed(title)
        return self.opportunity(
            title,
            self.timeline(share),
            advice=BY_CAUSE.get(_cause(device), "") or _advice(gaps),
            location=next((gap.location for gap in gaps if gap.location), None),
            evidence={
                "busy_share": round(device.busy_share, 4),
                "busy_p5": device.busy_p5,
                "busy_p95": device.busy_p95,
                "idle_ms": {}
                if device.time is None
                else {name: round(ms, 4) for name, ms in device.time.idle},
                "largest_gaps": [
                    {"ms": round(gap.ms, 4), "host_ran": gap.during, "place": str(gap.location or "")}
                    for gap in gaps[:3]
                ],
            },
        )


def _cause(device: DeviceFacts) -> str:
    """What more than half of the idle time waited for; empty if nothing did."""
    if device.time is None:
        return ""
    return next((name for name, ms in device.time.idle if ms > device.time.idle_ms / 2), "")


def _advice(gaps: list[Gap]) -> str:
    known = next((gap for gap in gaps if gap.during), None)
    if known is None:
        return "Find what the host does meanwhile: record a few steps with `with_stack=True`."
    place = f" at {known.location}" if known.location else ""
    return (
        f"Take `{known.during}`{place} out of the step or do it every 50 steps: "
        f"the host runs it in a gap of {known.ms:.2g} ms."
    )
