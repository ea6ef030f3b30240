"""Workers take longer to hand over a batch than making it takes."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import feeding
from advisor.profiles.facts.profile import Profile
from advisor.rules.input_bound import THRESHOLD
from advisor.rules.slow_item import in_ms, wait_ceiling

EXPLAINED = (
    2.0  # times its transport that the wait for a batch may last, to be explained by it; set by experiment
)


class WorkersOnMemoryData(Rule):
    """A batch that a worker made must be passed to the training process through shared memory.

    That costs a fraction of a millisecond and more for each batch, whatever it took to make. Where the data
    lies in memory already, such as in a `TensorDataset`, slicing it takes less, and workers only add
    copies and processes. Load without workers, and take the whole batch with one index:
    `for rows in torch.randperm(len(x)).split(batch_size): batch = x[rows]`.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "time of items and of their transport: a trace does not hold them"
    threshold = (
        "making a batch takes less than passing it between processes (reported to PyTorch), with input wait "
        f"at least {THRESHOLD:.0%} of the step"
    )
    knobs = ("num_workers", "in_memory_cache")
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        if loader.num_workers == 0:
            return self.passed("0 workers hand over batches")
        wait = phases.share("input_wait")
        if wait < THRESHOLD:
            return self.passed(f"{percent(wait)} of the step waits for data")
        fed = feeding(profile)
        if fed is None or loader.collate_ms is None or loader.transport_ms is None:
            return self.not_applicable(
                "time of making and passing a batch", "needs items that can be fetched singly"
            )
        making_ms = fed.making_ms / fed.batches
        title = f"{in_ms(making_ms)} to make a batch, {in_ms(loader.transport_ms)} to pass it on"
        if making_ms >= loader.transport_ms or fed.making_ms >= fed.wait_ms:
            return self.passed(title)
        if fed.wait_ms > fed.batches * EXPLAINED * loader.transport_ms:
            return self.passed(f"{title}: too little for a wait of {in_ms(fed.wait_ms / fed.batches)}")
        return self.opportunity(
            f"{percent(wait)} of each step waits for workers: {title}",
            wait_ceiling(self, profile),
            advice="Load without workers: `DataLoader(..., num_workers=0)`.",
            location=loader.location,
            evidence={
                "making_ms": round(making_ms, 4),
                "transport_ms": round(loader.transport_ms, 4),
                "input_wait_ms": round(phases.input_wait_ms, 4),
                "num_workers": loader.num_workers,
            },
        )
