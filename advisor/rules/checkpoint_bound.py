"""Saving takes a large part of the run."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.05  # of the run's time; set by experiment


class CheckpointBound(Rule):
    """`torch.save` copies the state to the host and writes it while training stands still.

    The larger the model and the slower the disk, the longer each pause; saving at every improvement or
    every few steps adds up. Save less often, to a local disk, or in the background:
    `torch.distributed.checkpoint.async_save(state, checkpoint_id=path)` waits only for the copy, which takes
    memory of its own. The share is that of the run since its first step, and at least two saves must have
    been seen.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "time of saving: a trace does not tell"
    threshold = "saving at least 5 % of the run's time (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None or not run.wall_s:
            return self.not_applicable("time of the run", "no steps were recorded")
        if run.save_every is None and (run.saves or run.save_s > 0):
            return self.not_applicable(f"seen once: {run.save_s:.2g} s of saving", "a share needs two saves")
        share = min(1.0, run.save_s / run.wall_s)
        title = f"{percent(share)} of the run saves checkpoints"
        if share < THRESHOLD or run.save_every is None:
            return self.passed(title)
        return self.opportunity(
            title,
            # One save more or less at the edge of the window changes the share by this much.
            self.timeline(share, max(TIMELINE_ERROR, 1 / max(1, run.saves)), of="run"),
            advice=f"Save less often than every {run.save_every:.0f} steps; a crash then loses the steps "
            "since the last save. `torch.distributed.checkpoint.async_save` keeps the interval and takes a "
            "copy's memory.",
            location=run.save_location,
            evidence={
                "save_s": round(run.save_s, 4),
                "run_s": round(run.wall_s, 4),
                "saves": run.saves,
                "steps_between": round(run.save_every, 1),
            },
        )
