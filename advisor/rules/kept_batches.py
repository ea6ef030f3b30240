"""Tensors of the batches are kept: with workers each would hold a file open."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.trends import kept_batches, planned_steps
from advisor.profiles.facts.profile import Profile

USUAL_LIMIT = 1024  # open files that most systems allow a process


class KeptBatches(Rule):
    """A program that keeps a tensor of every batch runs well without workers, and dies with them.

    A tensor that a worker made lies in shared memory and holds a file open as long as it lives. Kept in a
    list, of labels for the metric at the end of an epoch, they meet the limit of open files after about a
    thousand steps: "too many open files", or "received 0 items of ancdata". Keep a copy of what is kept
    (`labels.append(y.clone())`), or numbers (`y.tolist()`).
    """

    family = Family.INPUT
    kind = Kind.RISK
    on_traces = "variables of the program: a trace does not hold them"
    threshold = "a variable that keeps a loader's own tensors, more in an epoch or run than files may be open"
    severity = Severity.MEDIUM
    timed = False

    def check(self, profile: Profile) -> Finding:
        if profile.growth is None or profile.loader is None:
            return self.not_applicable("variables that keep batches", "needs a watched run with a DataLoader")
        if profile.loader.num_workers:
            return self.not_applicable(
                "a loader without workers", "limit_ahead counts what workers hold open"
            )
        kept = kept_batches(profile)
        if kept is None:
            return self.passed("no tensors of the batches are kept")
        files = next((each for each in profile.growth.readings if each.kind == "open_files"), None)
        known = files is not None and files.limit is not None
        limit = int(files.limit) if files is not None and known and files.limit is not None else USUAL_LIMIT
        opened = int(files.values[-1]) if files is not None else 0
        met_at = max(0, int((limit - opened) / kept.per_step))
        planned = planned_steps(profile)
        if planned is not None and met_at > planned[0]:
            return self.passed(f"`{kept.name}` keeps fewer tensors than files may be open")
        of = "" if planned is None else f" of {planned[0]:,} {planned[1]}"
        return self.diagnostic(
            f"{kept.per_step:.3g} tensors of each batch are kept in `{kept.name}`: from workers each would "
            f"hold a file open, and the limit of {limit:,} would be met at step {met_at:,}{of}",
            advice=f"Keep copies in `{kept.name}`: `.clone()` of each tensor that is kept, or `.tolist()`. "
            'Else set `torch.multiprocessing.set_sharing_strategy("file_system")` together with workers.',
            location=kept.location,
            evidence={"kept_per_step": round(kept.per_step, 3), "limit": limit, "limit_met_at_step": met_at},
        )


def before_workers(profile: Profile) -> str:
    """What advice that asks for workers has to add, as a sentence behind a space; empty where nothing."""
    kept = kept_batches(profile)
    if kept is None or not KeptBatches().check(profile).fired:
        return ""
    return f" First keep copies in `{kept.name}`, `.clone()`: with workers the limit of open files is met."
