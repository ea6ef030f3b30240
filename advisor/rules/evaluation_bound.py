"""Evaluating takes a large part of the run."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.facts.profile import Profile
from advisor.rules.rollout_bound import is_learnt_from

THRESHOLD = 0.10  # of the run's time; set by experiment
TARGET = 0.05  # of the run's time, which the advised interval leads to


class EvaluationBound(Rule):
    """While the model is evaluated nothing is learnt, and the time grows with every evaluation.

    Often a full pass over the validation set comes more often than anyone reads its result, or at the
    training's batch size although it needs no gradients. Evaluate less often, on a fixed subset in between,
    or with a larger batch under `torch.inference_mode()`. The share is that of the run since its first
    step, and at least two evaluations must have been seen.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "time of evaluations: a trace does not tell them from training"
    threshold = "evaluation at least 10 % of the run's time (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None or not run.wall_s:
            return self.not_applicable("time of the run", "no steps were recorded")
        if is_learnt_from(run):
            return self.passed("0.0 % of the run evaluates: updates learn from what runs without gradients")
        if run.evaluation_every is None and (run.evaluations or run.evaluation_s > 0):
            return self.not_applicable(
                f"seen once: {run.evaluation_s:.2g} s of evaluation", "a share needs two evaluations"
            )
        share = min(1.0, run.evaluation_s / run.wall_s)
        title = f"{percent(share)} of the run evaluates"
        if share < THRESHOLD or run.evaluation_every is None:
            return self.passed(title)
        rarer = run.evaluation_every * share / (1 - min(share, 0.99)) * (1 - TARGET) / TARGET
        return self.opportunity(
            title,
            # One evaluation more or less at the edge of the window changes the share by this much.
            self.timeline(share, max(TIMELINE_ERROR, 1 / max(1, run.evaluations)), of="run"),
            advice="Evaluate under `with torch.inference_mode():` first; now each evaluation records a graph."
            if run.evaluation_records_graph
            else f"Evaluate every {_two_digits(rarer)} steps instead of every "
            f"{_two_digits(run.evaluation_every)}; the validation loss is then seen less often.",
            location=run.evaluation_location,
            evidence={
                "evaluation_s": round(run.evaluation_s, 4),
                "run_s": round(run.wall_s, 4),
                "evaluations": run.evaluations,
                "steps_between": round(run.evaluation_every, 1),
            },
        )


def _two_digits(steps: float) -> int:
    return int(float(f"{steps:.2g}"))
