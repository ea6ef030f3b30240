"""Joining samples into a batch takes a large part of making it."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import feeding
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.rules.input_bound import THRESHOLD
from advisor.rules.slow_item import MANY_FIELDS, at_once, in_ms, wait_ceiling

COLLATE = 0.30  # of making a batch; set by experiment


class SlowCollate(Rule):
    """After fetching samples one by one, the loader joins them: `collate_fn` stacks, pads and converts.

    Joining copies every sample once more, and with lists, numbers or NumPy arrays it first makes a tensor of
    each. An item of many small fields is stacked field by field, some microseconds each and as many again for
    what makes them. The step waits for it like for the samples themselves. Return tensors from the dataset
    and stack once, or fetch the whole batch with one index: `__getitems__(self, indices)` that returns
    `self.x[indices], self.y[indices]`, with `collate_fn=torch.utils.data.default_convert`. With
    `num_workers=1` joining runs beside the step.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "time of joining items: a trace does not hold it"
    threshold = (
        f"collating at least {COLLATE:.0%} of making a batch (set by experiment), with input wait at least "
        f"{THRESHOLD:.0%} of the step"
    )
    knobs = ("num_workers",)
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        wait = phases.share("input_wait")
        if wait < THRESHOLD:
            return self.passed(f"{percent(wait)} of the step waits for data")
        fed = feeding(profile)
        if fed is None or loader.collate_ms is None:
            return self.not_applicable("time of collating", "needs items that can be fetched singly")
        share = fed.collate_ms / fed.making_ms if fed.making_ms > 0 else 0.0
        title = f"{percent(share)} of making a batch is collating ({in_ms(loader.collate_ms)})"
        if share < COLLATE:
            return self.passed(title)
        passing_ms = loader.transport_ms if loader.num_workers else None
        if not fed.explains_wait or (passing_ms or 0.0) > fed.making_ms:
            return self.passed(f"{title}, which does not explain the wait")
        return self.opportunity(
            f"{percent(wait * share)} of each step waits for collating: {title}",
            wait_ceiling(self, profile, share),
            advice=_advice(loader),
            location=loader.location,
            evidence={
                "collate_ms": round(fed.collate_ms, 4),
                "items_ms": round(fed.items_ms, 4),
                "input_wait_ms": round(phases.input_wait_ms, 4),
                "num_workers": loader.num_workers,
            },
        )


def _advice(loader: LoaderFacts) -> str:
    few = (loader.batch_tensors or 0) < MANY_FIELDS
    if few and (loader.iterable or loader.shapes_vary):
        return (
            "Return tensors from the dataset and join them in one operation, "
            "`torch.stack(rows)` or `torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)`."
        )
    return at_once(loader)
