"""Small elementwise operators pass the same tensors through memory again and again."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import NO_RATE, share_of_compute, share_of_step
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.15  # of compute; set by experiment
IN_CACHE = 1.0  # of the speed of memory: chains above that find their tensors in a cache


class UnfusedPointwise(Rule):
    """Elementwise and normalising operators follow one another, each reading and writing a whole tensor.

    The arithmetic is nearly free; the time goes to memory traffic and to starting each operator. One fused
    kernel reads the input once and writes the result once. `torch.compile(model)` fuses such chains, and
    for common ones a fused layer exists, such as `nn.LayerNorm` or `nn.RMSNorm` in place of mean, square and
    division. Compiling takes seconds to minutes before the first step.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    threshold = (
        "chains of elementwise operators at least 15 % of compute (set by experiment), "
        "not faster than memory: those are in a cache"
    )
    knobs = ("execution", "compile_region")
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or not window.ops or not window.with_shapes:
            return self.not_applicable("operators with shapes", "need steps recorded by torch.profiler")
        if profile.run is not None and profile.run.own_compile:
            return self.not_applicable("operators run one by one", "the program compiles them")
        chains = window.pointwise
        share = share_of_compute(window, chains.ms) if chains is not None else 0.0
        title = f"{percent(share)} of compute passes tensors through chains of elementwise operators"
        if chains is None or chains.ms <= 0 or share < THRESHOLD or chains.bytes_moved <= 0:
            return self.passed(title)
        limit = profile.rates.memory_sequential if profile.rates is not None else None
        if not limit:
            return self.not_applicable("memory speed", NO_RATE)
        reached = chains.bytes_moved / (chains.ms / 1000) / limit
        if reached >= IN_CACHE:
            return self.passed(f"{title}, at {percent(reached)} of memory speed")
        kept = min(1.0, chains.bytes_fused / chains.bytes_moved)
        compiles = profile.device.startswith("cuda") or profile.machine.has_compiler
        return self.opportunity(
            title,
            self.modelled(share_of_step(profile, chains.ms * (1 - kept))),
            advice=_advice(compiles),
            location=chains.location,
            evidence={
                "chains_ms": round(chains.ms, 4),
                "chains": chains.chains,
                "longest": list(chains.longest),
                "bytes_moved": chains.bytes_moved,
                "bytes_fused": chains.bytes_fused,
                "share_of_memory_speed": round(reached, 3),
            },
            knobs=None if compiles else (),
        )


def _advice(compiles: bool) -> str:
    first = "Compile the model: `model = torch.compile(model)`"
    if not compiles:
        first = "Install a C++ compiler, then compile the model: `model = torch.compile(model)`"
    return f"{first}, which delays the first step and draws other random numbers."
