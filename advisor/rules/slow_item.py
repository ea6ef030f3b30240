"""Single items take longer than the rest of the step."""

from advisor.advice.finding import Ceiling, Finding, Kind
from advisor.advice.named_calls import PARSES
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.derived.copies import against_workers
from advisor.profiles.derived.demand import WAITS, Feeding, feeding, is_piped
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.profiles.facts.replayed import Share
from advisor.rules.input_bound import THRESHOLD, without_wait
from advisor.rules.kept_batches import before_workers

SLOW_END = 10  # times the median, which one in a hundred items exceeds; set by experiment
ONE_IN = 100
TINY_MS = (
    0.1  # of an item, up to which the calls around it cost most: one index takes some 0.01 (by experiment)
)
MANY_FIELDS = 16  # tensors of an item, from where each is a small cost of its own; set by experiment
ONCE = 2.0  # times the wait that slow items would cost, from where they were slow once; set by experiment


class SlowItem(Rule):
    """One sample costs so much that making a batch of them takes longer than training on it.

    Workers hide the making of batches behind the step only as long as each of them makes its batch in time.
    The time goes to computing, such as decoding or augmenting, or to waiting for something that is no file:
    a request, a lock, a queue. A few items that are far slower than the others stop the loader just as well,
    since batches are handed over in order.
    Do once what every epoch repeats and store the result, work on a whole batch at a time in
    `__getitems__(self, indices)`, or decode less: smaller images, a faster library. Items that lie in memory
    and take microseconds each cost more to fetch one by one than all of a batch with one index. Items that
    wait for files are the matter of `slow_storage`, joining them that of `slow_collate`.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "time of each item: a trace does not hold it"
    threshold = (
        f"items of a batch take longer than the rest of the step x max(1, workers), or one in {ONE_IN} takes "
        f"{SLOW_END} times the median, with input wait at least {THRESHOLD:.0%} (set by experiment)"
    )
    knobs = ("num_workers", "in_memory_cache", "in_order")
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        share = phases.share("input_wait")
        if share < THRESHOLD:
            return self.passed(f"{percent(share)} of the step waits for data")
        fed = feeding(profile)
        if fed is None or loader.item_ms is None:
            return self.not_applicable("time of an item", "needs items that can be fetched singly")
        title = f"{in_ms(fed.items_ms)} to make the items of a step, {in_ms(fed.rest_ms)} to train on them"
        if fed.collate_ms > fed.items_ms:
            return self.passed(f"{title}; joining them takes longer")
        if fed.share_of_storage > 0:
            return self.passed(f"{title}; they wait for files")
        if is_piped(loader):
            return self.passed(f"{title}; they come from another process")
        slow = fed.items_ms > fed.rest_ms * max(1, fed.workers)
        if not slow and not _stalls(fed, loader):
            return self.passed(title)
        told = f"items that take {in_ms(loader.item_ms)} each"
        if not slow:
            told = f"the slowest items, {in_ms(loader.item_p99_ms or 0.0)} against {in_ms(loader.item_ms)}"
        return self.opportunity(
            f"{percent(share)} of each step waits for {told}",
            wait_ceiling(self, profile),
            advice=_advice(fed, loader, before_workers(profile)) + _of_file(profile, loader)
            if slow
            else _advice_on_stalls(loader),
            location=loader.slow_line or loader.location,
            evidence={
                "item_ms": round(loader.item_ms, 4),
                "item_p99_ms": loader.item_p99_ms and round(loader.item_p99_ms, 4),
                "items_per_step": round(fed.items, 1),
                "rest_of_step_ms": round(fed.rest_ms, 4),
                "cpu_share": loader.cpu_share and round(loader.cpu_share, 3),
                "num_workers": loader.num_workers,
            },
        )


def wait_ceiling(rule: Rule, profile: Profile, part: float = 1.0) -> Ceiling:
    """The share of the step that goes with this part (0 to 1) of the input wait, as replayed if it was."""
    free = without_wait(profile)
    if free is None:
        wait = profile.phases.share("input_wait") if profile.phases is not None else 0.0
        return rule.timeline(part * wait)
    if part == 1.0:
        return rule.measured(free)
    less = Share(part * free.share, part * free.low, part * free.high)
    return Ceiling(less.share, less.low * (1 - TIMELINE_ERROR), less.high, "timeline")


def in_ms(ms: float) -> str:
    """Milliseconds with two significant digits: ``0.012 ms``, ``3.2 ms``, ``120 ms``."""
    if ms < 9.95:
        return f"{ms:.2g} ms"
    return f"{float(f'{ms:.2g}'):,.0f} ms"


def _stalls(fed: Feeding, loader: LoaderFacts) -> bool:
    """Whether a few items that are far slower than the others account for the wait.

    If they would account for more than the wait, the slow one was slow once: the first import of a library.
    """
    slowest = loader.item_p99_ms
    if slowest is None or not loader.item_ms or slowest <= SLOW_END * loader.item_ms:
        return False
    cost_ms = fed.items / ONE_IN * slowest / max(1, fed.workers)
    least_ms = THRESHOLD * (fed.rest_ms + fed.wait_ms)
    return least_ms <= cost_ms <= ONCE * fed.wait_ms


def _advice(fed: Feeding, loader: LoaderFacts, before: str) -> str:
    line = loader.slow_line
    place = f" at {line}" if line is not None else f" in `{loader.dataset_type}`"
    if fed.waiting is not None and fed.waiting > WAITS:
        method = "`__iter__(self)`" if loader.iterable else "`__getitems__(self, indices)`"
        once = f"sk for a whole batch at once{place}, in {method}: it then waits once, not once per item."
        workers = _hiding(fed)
        if loader.num_workers or against_workers(loader, workers) is not None:
            return f"A{once}"
        return (
            f"Let workers wait: `DataLoader(..., num_workers={workers})`, also more than there are CPUs, "
            f"as items wait and do not compute.{before} Or a{once}"
        )
    if 0 < (loader.item_ms or 0.0) <= TINY_MS and not loader.iterable and not loader.shapes_vary:
        return _transformed(fed, loader) if loader.transformed else at_once(loader)
    if (loader.batch_tensors or 0) >= MANY_FIELDS:
        return _of_fields(loader)
    what = f"the work of `{line.function}`" if line is not None and line.function else "the work"
    return (
        f"Do {what}{place} once, offline, and store the result; "
        "a random augmentation stays in the item, since stored it would be the same in every epoch."
    )


def _of_file(profile: Profile, loader: LoaderFacts) -> str:
    """What to do where the slow line reads or parses a file, which may be the same for all items."""
    calls = [spot.call for spot in profile.hotspots if spot.location == loader.slow_line]
    call = next(filter(PARSES.search, calls), "")
    if not call:
        return ""
    mapped = ', large arrays with `mmap_mode="r"`' if call.endswith(".load") else ""
    return f" Where `{call}` gives the same for all items, call it once in the constructor{mapped}."


def at_once(loader: LoaderFacts) -> str:
    """How a batch of items that lie in memory is taken with one index, or of many fields with few stacks."""
    if (loader.batch_tensors or 0) >= MANY_FIELDS:
        return _of_fields(loader)
    if loader.dataset_type == "TensorDataset":
        return (
            "Take a batch with one index: `DataLoader(data, sampler=BatchSampler(RandomSampler(data), "
            "batch_size, drop_last=False), batch_size=None)`."
        )
    return (
        "Fetch a batch with one index: `def __getitems__(self, indices): return self.x[indices], "
        "self.y[indices]`, with `DataLoader(..., collate_fn=torch.utils.data.default_convert)`."
    )


def _transformed(fed: Feeding, loader: LoaderFacts) -> str:
    """Where each item goes through a function of the dataset's, which is most of what it takes."""
    advice = (
        f"Unless the `transform` of `{loader.dataset_type}` is random, apply it to all items once, before "
        "training, and take each batch from the result with one index"
    )
    return advice + (
        "."
        if loader.num_workers
        else f"; else make batches in `DataLoader(..., num_workers={_hiding(fed)})`."
    )


def _of_fields(loader: LoaderFacts) -> str:
    return (
        f"Give an item one tensor in place of {loader.batch_tensors} fields, each of which is made and "
        f"stacked by itself: join those of one type in the constructor of `{loader.dataset_type}`, "
        "`self.x = torch.stack(columns, dim=1)`, and take `self.x[index]`."
    )


def _hiding(fed: Feeding) -> int:
    """Workers that make the items of a step while it trains; a power of two up to 8."""
    return next((count for count in (1, 2, 4) if fed.items_ms <= count * fed.rest_ms), 8)


def _advice_on_stalls(loader: LoaderFacts) -> str:
    if loader.num_workers > 1:
        return (
            "Hand over batches as they are ready: `DataLoader(..., in_order=False)`, "
            "which changes the order of batches."
        )
    place = f"at {loader.slow_line}" if loader.slow_line is not None else f"in `{loader.dataset_type}`"
    return (
        f"Prepare the large items {place} offline, so that none takes {SLOW_END} times as long as the others."
    )
