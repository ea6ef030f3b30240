"""The main process draws the numbers of a batch's items slowly."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent, three_digits
from advisor.profiles.facts.profile import LoaderFacts, Profile

THRESHOLD = 0.05  # of the step, as for waiting for data (PyTorch TensorBoard plug-in)
MOSTLY = 0.5  # of what is drawn in each step, which holds first draws of short epochs; chosen, not measured
LARGE_PART = 0.3  # of the wait, from where it is the first thing to shorten; set by experiment


class SlowSampler(Rule):
    """Which items make up a batch is decided by the sampler, in the main process, for each batch.

    However many workers a loader has, none of them draws: the step waits. Shuffled order costs nothing, but
    a sampler of one's own may sort, search or weigh the whole dataset for every batch. Draw the numbers for
    many batches at once (`rng.choice(n, 100 * batch_size)`), keep a sum tree or prefix sums that an update
    changes in a few places, or draw in a thread ahead of time.

    Torch's own samplers draw all numbers of an epoch before its first batch: `WeightedRandomSampler` goes
    over all weights, and a shuffled order of all items becomes a list of Python numbers. Where an epoch is
    short against the dataset that is much of it. Draw as many as a batch needs at a time.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "time of samplers: a trace does not tell it from other waits"
    threshold = (
        "the sampler takes at least 5 % of the step, or its first numbers 5 % of an epoch (as for input "
        "wait, PyTorch TensorBoard plug-in)"
    )
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        first = _share_of_epoch(loader)
        if first >= max(THRESHOLD, MOSTLY * drawing_share(profile)):
            return self._of_epoch(loader, first)
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

    def _of_epoch(self, loader: LoaderFacts, share: float) -> Finding:
        first_ms, line = loader.first_draw_ms or 0.0, loader.sampler_line
        place = f" at {line}" if line is not None else ""
        return self.opportunity(
            f"{percent(share)} of each epoch draws its numbers before the first batch "
            f"({three_digits(first_ms)} ms in `{loader.sampler_type}`{place})",
            self.timeline(share, of="run"),
            advice=_advice_for_epoch(loader, place),
            location=line or loader.location,
            evidence={
                "first_draw_ms": round(first_ms, 4),
                "epoch_s": loader.epoch_wall_s and round(loader.epoch_wall_s, 4),
                "sampler": loader.sampler_type,
            },
        )


def _share_of_epoch(loader: LoaderFacts) -> float:
    """Share (0 to 1) of an epoch in which the sampler draws its first numbers; 0 where that is not known."""
    if loader.first_draw_ms is None or not loader.epoch_wall_s:
        return 0.0
    return min(1.0, loader.first_draw_ms / 1000 / loader.epoch_wall_s)


def _advice_for_epoch(loader: LoaderFacts, place: str) -> str:
    if loader.sampler_type == "WeightedRandomSampler":
        return (
            "Weigh all items once, `total = weights.cumsum(0)`, and draw those of a batch at a time in a "
            "`batch_sampler`: `torch.searchsorted(total, total[-1] * torch.rand(batch_size)).tolist()`."
        )
    if place:
        return (
            f"Draw the numbers of a batch at a time{place}, in place of a list of all before the first; "
            "workers do not draw."
        )
    return (
        "Shuffle without a list of all numbers, in a `batch_sampler`: "
        "`for part in torch.randperm(len(data)).split(batch_size): yield part.tolist()`."
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
