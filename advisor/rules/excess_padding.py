"""Most of what a batch holds is padding."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import LoaderFacts, Profile

THRESHOLD = 0.50  # of the tokens (SageMaker Debugger, NLPSequenceRatio)
SORTED = 0.10  # of what a model that answers is given, which sorting by length leaves out (set by experiment)


class ExcessPadding(Rule):
    """Sequences of a batch are filled up to one length, and the filling is computed like the rest.

    Padding all samples to a fixed length, or short ones to the longest of a mixed batch, makes most
    of the step a computation on nothing. Pad each batch to its own longest sample, in `collate_fn`:
    `torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)`. Put samples of similar length into the same
    batch, or join short ones into one row; both change which samples meet in a batch.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    knobs = ("length_bucketing",)
    on_traces = "token ids of batches: a trace does not hold them"
    threshold = f"padding more than {THRESHOLD:.0%} of the tokens (SageMaker Debugger, NLPSequenceRatio)"

    def check(self, profile: Profile) -> Finding:
        loader, phases = profile.loader, profile.phases
        if profile.run is not None and profile.run.requests_padding is not None:
            return self._of_requests(profile.run.requests_padding, profile)
        if loader is None or loader.padding_share is None:
            return self.not_applicable("padding", "needs batches of token ids from a DataLoader")
        if phases is None:
            return self.not_applicable("no steps were recorded")
        title = f"{percent(loader.padding_share)} of the tokens are padding"
        if loader.padding_share <= THRESHOLD:
            return self.passed(title)
        parts = ("forward", "backward") + (("sync",) if profile.device.startswith("cuda") else ())
        compute = phases.share(*parts)
        return self.opportunity(
            title,
            self.modelled(loader.padding_share * compute),
            advice=_advice(loader),
            location=loader.location,
            evidence={
                "padding_share": round(loader.padding_share, 4),
                "share_of_step_that_grows_with_tokens": round(compute, 4),
                "shapes": loader.shapes,
            },
            knobs=(),
        )

    def _of_requests(self, saved: float, profile: Profile) -> Finding:
        title = f"{percent(saved)} of what the model is given is padding that sorting by length leaves out"
        if saved < SORTED or profile.phases is None:
            return self.passed(title)
        return self.opportunity(
            title,
            self.modelled(saved * profile.phases.share("forward")),
            advice="Put requests of like length into one call of the model, which changes their order.",
            evidence={"padding_share": round(saved, 4)},
            knobs=("length_bucketing",),
        )


def _advice(loader: LoaderFacts) -> str:
    if loader.shapes == 1:
        return (
            "Pad each batch to its own longest sample in `collate_fn`: "
            "`torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)`; shapes then vary, "
            "which compiled code must allow."
        )
    return (
        "Put samples of similar length into a batch, "
        "`DataLoader(..., batch_sampler=batches_sorted_by_length)`, which changes the order of samples."
    )
