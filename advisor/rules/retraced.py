"""Requests bring a model into another form that has been made before."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.made_again import made_again, share_of_requests
from advisor.profiles.facts.profile import Profile


class Retraced(Rule):
    """Tracing, scripting, exporting, quantising, or opening a session is work to be done once per model.

    In a function that answers requests it is done for each of them, and takes longer than what it makes
    saves. Make the form once, before the first request, store it (`torch.jit.save`, a `.pt2` or `.onnx`
    file), and keep the loaded form.
    """

    family = Family.HOST
    kind = Kind.WASTE
    severity = Severity.HIGH
    explains = ("unattributed_time", "preprocessing_bound", "hot_line")
    on_traces = "making of forms: a trace does not show it"
    threshold = "a form made in every fifth request or more (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        if profile.served is None:
            return self.not_applicable("requests", "the run was not counted in requests")
        made = made_again(profile, "form")
        if made is None:
            return self.passed("0 requests make another form of the model")
        title = f"{made.per_request:.2g} times per request a form is made: {round(made.ms, 1):,} ms"
        advice = f"Call `{made.call}` once, before the first request, and keep what it returns."
        evidence = {"made_per_request": round(made.per_request, 2), "made_ms": round(made.ms, 3)}
        share = share_of_requests(profile, made)
        if share is None:
            return self.diagnostic(title, advice=advice, location=made.location, evidence=evidence)
        return self.opportunity(
            title, self.timeline(share), advice=advice, location=made.location, evidence=evidence
        )
