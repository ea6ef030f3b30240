"""A program that has all its inputs at hand answers them one at a time."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile

THRESHOLD = 1.3  # times as many samples per second; less may be the machine (set by experiment)
EIGHT = 8
SERIAL = 0.5  # relative: copies of one sample are the best case, a real batch has to be padded and collated


class OneByOne(Rule):
    """Calling a model has a price that does not depend on how many samples it is given.

    With one sample weights are read from memory for it alone, and Python and torch are called for it alone. A
    loop over a data set or over files has no reason to do so, as nobody waits for a single answer. Raise
    `batch_size` of the loader. Eight copies of one sample were answered in one call, and timed against one.
    Where requests come one after the other from outside, this is not for you.
    """

    family = Family.INPUT
    kind = Kind.HEADROOM
    knobs = ("serving_batch",)
    explains = ("launch_bound",)
    on_traces = "time of several samples at once: needs the program itself"
    threshold = f"batches of one, {THRESHOLD} times as many samples/s with eight at once (by experiment)"

    def check(self, profile: Profile) -> Finding:
        served, phases, loader = profile.served, profile.phases, profile.loader
        if served is None or phases is None or served.eight_at_once is None:
            return self.not_applicable("time of eight samples at once", "needs requests of one sample each")
        gain = EIGHT / served.eight_at_once
        said = f"{gain:.2g} times as many samples per second with eight in one call"
        single = loader is not None and loader.batch_size in (1, None)
        whole = profile.run is not None and profile.run.requests_batch == 1
        if not (single or whole):
            return self.passed(f"{said}, but no DataLoader gives them one by one")
        if gain < THRESHOLD:
            return self.passed(said)
        return self.opportunity(
            said,
            self.modelled((1 - 1 / gain) * phases.share("forward"), SERIAL),
            advice=f"Answer several at once: `batch_size={EIGHT}` of the "
            f"{'loader' if single else 'workload'}; each answer then comes with its batch, and it takes more "
            "memory.",
            location=None if loader is None else loader.location,
            evidence={"time_of_eight_over_one": round(served.eight_at_once, 3)},
            knobs=self.knobs if whole else (),
        )
