"""Several ranks together are hardly faster than one process."""

from math import log2
from statistics import fmean

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile

WORTH_IT = 1.1  # samples/s of all ranks over those of one process; set by experiment
THREADS_GAIN = 1.34  # of twice the threads, the least of five nets on two cores (measured)


class CommNotWorthIt(Rule):
    """What ranks gain by computing side by side can be less than what exchanging gradients costs.

    Small models send as much as they compute: two ranks of a small network reached 0.53 to 0.65 of one
    process with the same cores. Use fewer ranks, or let each rank do more between two exchanges, with a
    larger batch or accumulation (both change the training).

    The comparison is modelled. Without communication, n ranks do n times the work of one; one process that
    has all their CPUs is 1.34 times faster per doubling of threads, and one with a single device is not.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "steps of two ranks: needs their traces, one file each"
    threshold = f"samples/s of all ranks at most {WORTH_IT} x those of one process (set by experiment)"
    knobs = ("single", "accumulation")

    def check(self, profile: Profile) -> Finding:
        ranks = profile.ranks
        if not ranks or len(ranks) < 2:
            return self.not_applicable("ranks", "the run is a single process")
        off = profile.replays.communication_off
        share = off.share if off is not None else fmean(rank.share("exposed") for rank in ranks)
        one = THREADS_GAIN ** log2(len(ranks)) if profile.device == "cpu" else 1.0
        gain = len(ranks) * (1 - share) / one
        title = f"{gain:.2g}x the samples/s of one process, from {len(ranks)} ranks (model, not measured)"
        if gain > WORTH_IT:
            return self.passed(title)
        return self.diagnostic(
            title,
            advice=f"Run one process with all CPUs: `torch.set_num_threads({profile.machine.cpus_allowed})`, "
            "no `torchrun`; keep the global batch, or the training changes."
            if profile.device == "cpu"
            else "Run fewer ranks with a larger batch each: the global batch, and with it the training, "
            "stays the same.",
            evidence={
                "ranks": len(ranks),
                "communication_share": round(share, 4),
                "one_process": round(one, 2),
            },
        )
