"""An evaluation records a graph that nobody uses."""

from advisor.advice.finding import Ceiling, Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile


class GradientsInEvaluation(Rule):
    """In evaluation no gradient is needed, but autograd records one for every operator unless told not to.

    Recording costs time on each operator (evaluations ran at 0.83 to 0.94 of their speed) and keeps all
    activations of a batch in memory. Put the evaluation into `with torch.inference_mode():`, or
    `torch.no_grad()` where its results meet autograd again. An evaluation that differentiates on purpose,
    for forces or attacks, is right as it is.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "evaluations: a trace does not tell them from training"
    threshold = "outputs in evaluation carry a graph (PyTorch tuning guide)"
    explains = ("evaluation_bound",)

    def check(self, profile: Profile) -> Finding:
        run, without = profile.run, profile.replays.evaluation_without_graph
        if run is None:
            return self.not_applicable("evaluation", "no steps were recorded")
        if run.evaluation_records_graph is None:
            return self.not_applicable("evaluation", "none was seen")
        if not run.evaluation_records_graph:
            return self.passed(f"0 of {max(1, run.evaluations)} evaluations record a graph")
        advice = (
            "Evaluate under `with torch.inference_mode():`; what it computes can then not be used in "
            "autograd, and the activations of a batch are freed at once."
        )
        evidence = {"evaluations": run.evaluations, "evaluation_s": round(run.evaluation_s, 4)}
        if without is None or run.evaluation_every is None or not run.wall_s:
            return self.diagnostic(
                f"{run.evaluations} evaluations record a graph"
                if run.evaluations > 1
                else "1 evaluation records a graph",
                advice=advice,
                location=run.evaluation_location,
                evidence=evidence,
            )
        evaluating = min(1.0, run.evaluation_s / run.wall_s)
        saved = Ceiling(
            without.share * evaluating, without.low * evaluating, without.high * evaluating, "replay", "run"
        )
        title = f"{percent(saved.share)} of the run records graphs in evaluation"
        evidence |= {"evaluation_share": round(evaluating, 4), "graph_share": round(without.share, 4)}
        if saved.low < self.least:
            # Too little time, but the kept activations stay: told, at the lowest severity.
            return self.diagnostic(
                title,
                advice=advice,
                severity=Severity.LOW,
                location=run.evaluation_location,
                evidence=evidence,
            )
        return self.opportunity(
            title,
            saved,
            advice=advice,
            location=run.evaluation_location,
            evidence=evidence,
        )
