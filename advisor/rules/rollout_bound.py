"""Playing without gradients, between the updates that learn from it, takes a large part of the run."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.facts.profile import Profile, RunFacts

THRESHOLD = 0.10  # of the run's time, as for evaluations; set by experiment
OFTEN = 50  # steps at most between two of them: an evaluation comes less often; set by experiment
FORWARDS = 5  # of one rollout at least: a teacher or a generator is called once
FEW_ROWS = 8  # of a forward, up to which calling costs more than computing; set by experiment


class RolloutBound(Rule):
    """A policy plays, a model generates or searches, without gradients, and then a few updates learn from it.

    That is no evaluation, and doing it less often would change what is learnt. It costs time where the
    model is called for one state at a time: each call takes as long as one for many states. Step several
    environments together and give all their states to one forward, use `torch.inference_mode()`, draw
    actions for all of them at once, or let processes play while the updates run. What else the rollout
    spends its time in is named by line. What has a loader, is named after an evaluation, or comes every
    so many steps only, is no rollout.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "forwards without gradients: a trace does not tell them from training"
    threshold = (
        "forwards in training mode without gradients, 10 % of the run, every 50 steps or of 8 rows at most "
        "(by experiment)"
    )
    explains = ("unattributed_time", "unstable_steps", "launch_bound")

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None or not run.wall_s:
            return self.not_applicable("time of the run", "no steps were recorded")
        if not is_rollout(run):
            return self.passed("0 rollouts without gradients between updates")
        share = min(1.0, run.evaluation_s / run.wall_s)
        forwards, rows = run.evaluation_forwards or 0.0, run.evaluation_rows or 0.0
        said = f"{percent(share)} of the run plays without gradients"
        if share < THRESHOLD:
            return self.passed(said)
        spots = sorted(
            (spot for spot in profile.hotspots if spot.phase in ("evaluation", "other")),
            key=lambda spot: (spot.phase != "evaluation", -spot.share),
        )
        single = rows <= FEW_ROWS
        return self.opportunity(
            f"{said}: {forwards:.0f} forwards of {rows:.0f} row{'s' * (round(rows) != 1)} between updates",
            kind=self.kind if single else Kind.HEADROOM,
            ceiling=self.timeline(share, max(TIMELINE_ERROR, 1 / max(1, run.evaluations)), of="run"),
            advice="Give the states of several environments to one forward, and step them together: "
            "a forward of many rows takes little longer than one of a few."
            if single
            else "Make the lines of the rollout cheaper, or let other processes play while the updates run; "
            "start with the one that is named.",
            location=spots[0].location if spots else run.evaluation_location,
            evidence={
                "rollout_s": round(run.evaluation_s, 4),
                "run_s": round(run.wall_s, 4),
                "forwards": round(forwards, 1),
                "rows": round(rows, 1),
                "lines": [f"{spot.location}: {percent(spot.share)} of {spot.phase}" for spot in spots[:5]],
            },
        )


def is_rollout(run: RunFacts) -> bool:
    """Whether updates learn from what is played without gradients, rather than from targets alone."""
    return is_learnt_from(run) and (run.evaluation_forwards or 0) >= FORWARDS


def is_learnt_from(run: RunFacts) -> bool:
    """Whether updates learn from forwards without gradients: a policy that plays, targets, a teacher.

    An evaluation comes less often, or for many samples at once.
    """
    often = run.evaluation_every is not None and (
        run.evaluation_every <= OFTEN or 0 < (run.evaluation_rows or 0) <= FEW_ROWS
    )
    return run.evaluation_in_training_mode is True and not run.evaluation_judges and often
