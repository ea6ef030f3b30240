"""Requests load weights that were loaded before."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.made_again import made_again, share_of_requests
from advisor.profiles.facts.profile import Profile


class RepeatedModelLoad(Rule):
    """A function that answers a request also loads its model, so every request pays for reading the weights.

    Building the modules, reading a file and copying weights into them takes far longer than an answer. Load
    once, before the first request, and keep the model: as a variable of the module, in the start-up of the
    server, or behind `functools.cache`.
    """

    family = Family.HOST
    kind = Kind.WASTE
    severity = Severity.HIGH
    explains = ("unattributed_time", "preprocessing_bound", "hot_line")
    on_traces = "loading of weights: a trace does not show it"
    threshold = "weights loaded in every fifth request or more (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        if profile.served is None:
            return self.not_applicable("requests", "the run was not counted in requests")
        made = made_again(profile, "load")
        if made is None:
            return self.passed("0 requests load weights again")
        title = f"{made.per_request:.2g} times per request weights are loaded: {round(made.ms, 1):,} ms"
        advice = (
            f"Call `{made.call}` once, before the first request, and keep the model, such as behind "
            "`@functools.cache`."
        )
        evidence = {"loads_per_request": round(made.per_request, 2), "load_ms": round(made.ms, 3)}
        share = share_of_requests(profile, made)
        if share is None:
            return self.diagnostic(title, advice=advice, location=made.location, evidence=evidence)
        return self.opportunity(
            title, self.timeline(share), advice=advice, location=made.location, evidence=evidence
        )
