"""The main process draws the numbers of a batch's items slowly."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.05  # of the step, as for waiting for data (PyTorch TensorBoard plug-in)
LARGE_PART = 0.3  # of the wait, from where it is the first thing to shorten; set by experiment


class SlowSampler(Rule):
    """Which items make up a batch is decided by the sampler, in the main process, for each batch.

    However many workers a loader has, none of them draws: the step waits. Shuffled order costs nothing, but
    a sampler of one's own may sort, search or weigh the whole dataset for every batch. Draw the numbers for
    many batches at once (`rng.choice(n, 100 * batch_size)`), keep a sum tree or prefix sums that an update
    changes in a few places, or draw in a thread ahead of time.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "time of samplers: a trace does not tell it from other waits"
    threshold = "the sampler takes at least 5 % of the step (as for input wait, PyTorch TensorBoard plug-in)"
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        if loader.draw_ms is None:
            return self.not_applicable("time of the sampler", "needs steps that are looked at closely")
        share = drawing_share(profile)
        said = f"{percent(share)} of each step draws the numbers of items"
        if share < THRESHOLD:
            return self.passed(said)
        place = f" at {loader.draw_line}" if loader.draw_line is not None else ""
        return self.opportunity(
            f"{said} in the main process",
            self.timeline(share),
            advice=f"Draw for many batches at once, or keep what is weighed in a sum tree{place}; "
            "workers do not draw, so more of them do not help.",
            location=loader.draw_line or loader.location,
            evidence={
                "draw_ms": round(loader.draw_ms, 4),
                "input_wait_ms": round(phases.input_wait_ms, 4),
                "step_ms": round(phases.step_ms, 4),
            },
        )


def drawing_share(profile: Profile) -> float:
    """Share (0 to 1) of the step that the sampler takes: no more than the step waits."""
    phases, loader = profile.phases, profile.loader
    if phases is None or loader is None or loader.draw_ms is None or phases.step_ms <= 0:
        return 0.0
    return min(loader.draw_ms, phases.input_wait_ms) / phases.step_ms


def waits_for_sampler(profile: Profile) -> bool:
    """Whether much of the wait for data is drawing, which nothing done to items or workers shortens."""
    phases = profile.phases
    return phases is not None and drawing_share(profile) > LARGE_PART * phases.share("input_wait")
