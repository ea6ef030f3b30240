"""Starting operators takes longer than running them."""

from collections import Counter

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import CAPTURING, clean_step_ms
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import DeviceFacts, Window

SHORT_KERNEL_US = 10.0  # TraceLens
LAUNCH_SHARE = 0.03  # of the step; TensorFlow's profiler
SHORT_KERNELS = 0.5  # of all kernels shorter than their launch; Holistic Trace Analysis counts them
UPDATE_SHARE = 0.10  # of the step, from where its form is worth a change, as for `optimizer_bound`
DISPATCH_SHARE = 0.30  # of the step, on a CPU; set by experiment
NOT_BY_LINES = ("backward", "optimizer", "loader")  # operators that no line of the step calls itself
MOST = 0.5  # of the operators called, for a line or the update to be where to begin


class LaunchBound(Rule):
    """Each operator is so small that calling it costs more than its arithmetic.

    Python, torch's dispatcher and, on a GPU, the launch of a kernel take several microseconds per operator,
    whatever its size. With many small operators a GPU stands still between two kernels, and a CPU spends the
    step on calls. Give each call more to do with a larger batch, update all parameters at once with
    `fused=True`, or let `torch.compile(model, mode="reduce-overhead")` replay all launches at once. A launch
    queue that is full means the opposite, that the host is ahead, and passes. Operators that make a batch do
    not count: they are the matter of the loader.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    threshold = (
        "GPU: mean kernel below 10 us (TraceLens), half of them shorter than their launch (HTA) or launches "
        "3 % of the step (TensorFlow profiler); CPU: calls 30 % of the step (set by experiment)"
    )
    knobs = ("execution", "optimizer_implementation", "batch_size")
    explains = ("idle_device",)
    recorded = True
    yields = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        if not profile.device.startswith("cuda"):
            return self._on_cpu(profile, window)
        if window.device is None:
            return self.not_applicable("device timeline", "needs steps recorded on a GPU")
        if window.device.captures:
            return self.not_applicable("device timeline", CAPTURING)
        return self._on_device(profile, window.device, window)

    def _on_device(self, profile: Profile, device: DeviceFacts, window: Window) -> Finding:
        title = f"{percent(device.launch_share)} of each step leaves the device waiting for launches"
        short = device.mean_kernel_us < SHORT_KERNEL_US or device.short_kernels >= SHORT_KERNELS
        if device.full_queue or not (short or device.launch_share >= LAUNCH_SHARE):
            return self.passed(title)
        return self.opportunity(
            title,
            self.timeline(device.launch_share),
            advice=_advice(profile, window, device.launch_share, on_gpu=True),
            knobs=self._knobs(profile),
            evidence={
                "kernels_per_step": device.kernels,
                "mean_kernel_us": device.mean_kernel_us,
                "shorter_than_their_launch": device.short_kernels,
            },
        )

    def _on_cpu(self, profile: Profile, window: Window) -> Finding:
        dispatch_us = profile.rates.dispatch_us if profile.rates is not None else None
        step_ms = clean_step_ms(profile)
        if dispatch_us is None:
            return self.not_applicable("cost of calling an operator", "needs measured rates")
        if step_ms is None:
            return self.not_applicable("no steps were recorded")
        share = min(1.0, window.dispatches * dispatch_us / 1000 / step_ms)
        title = f"{percent(share)} of each step goes to calling {window.dispatches:.0f} operators"
        if share < DISPATCH_SHARE:
            return self.passed(f"{title}: less than {percent(DISPATCH_SHARE)}")
        return self.opportunity(
            title,
            self.modelled(share),
            advice=_advice(profile, window, share, on_gpu=False),
            location=_calling_most(window),
            knobs=self._knobs(profile),
            evidence={
                "operators_per_step": round(window.dispatches, 1),
                "dispatch_us": round(dispatch_us, 3),
            },
        )

    def _knobs(self, profile: Profile) -> tuple[str, ...]:
        return tuple(
            name for name in self.knobs if name != "optimizer_implementation" or _updates_much(profile)
        )


def _updates_much(profile: Profile, least: float = UPDATE_SHARE) -> bool:
    """Whether the update is a part of the step for which another form of it can matter."""
    return profile.phases is None or profile.phases.share("optimizer") >= max(UPDATE_SHARE, least)


def _calling_most(window: Window) -> Location | None:
    """The line that calls most operators, beside those that start backward, the update, or making a batch."""
    calls: Counter[Location] = Counter()
    for op in window.ops:
        if op.location is not None and op.phase not in NOT_BY_LINES:
            calls[op.location] += round(op.calls)
    place, most = calls.most_common(1)[0] if calls else (None, 0)
    return place if most >= MOST * window.dispatches else None


def _advice(profile: Profile, window: Window, share: float, *, on_gpu: bool) -> str:
    """What to do first about calls that take this share of the step."""
    line = None if on_gpu else _calling_most(window)
    if line is not None:
        return (
            f"Have {line} do what it does in fewer, larger operators, or less often: it calls most of them."
        )
    if window.single_tensor_updates and _updates_much(profile, MOST * share):
        return (
            "Update all parameters in one operator: pass `fused=True` to the optimizer, "
            "which changes the parameters by rounding."
        )
    if on_gpu:
        return (
            'Replay launches at once: `model = torch.compile(model, mode="reduce-overhead")`, '
            "which needs constant shapes and more memory."
        )
    if profile.serves:
        return (
            "Have fewer calls do the same: `torch.jit.freeze(torch.jit.trace(model, inputs))`, which fixes "
            "weights and sizes; or answer several requests in one call."
        )
    return (
        "Give each call more to do: raise `batch_size`, which takes more memory and changes convergence "
        "unless the learning rate follows."
    )
