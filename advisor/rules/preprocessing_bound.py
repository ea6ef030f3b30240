"""Preparing the input takes longer than a model should wait for it."""

from pathlib import PurePath

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.asking_lines import asks
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.20  # of a request; TensorFlow's profiler calls 20 % of waiting for input high
LEAST_MS = 0.1  # Python around any call
EXPLAINED = 0.25  # of that time, by what is made anew: that has rules of its own
NEEDED = 0.5  # relative error: some preparation is needed


class PreprocessingBound(Rule):
    """Before a model is called its input is decoded, resized or tokenised, while nothing else happens.

    A faster model leaves that as it is. Do it in fewer and larger operations, with libraries that are made
    for it (a fast tokeniser, a decoder that scales while it reads), or for the next request in another
    thread or process while the model answers this one.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    explains = ("unattributed_time", "input_bound", "hot_line")
    on_traces = "begin of requests: a trace does not show it"
    threshold = f"{percent(THRESHOLD)} of a request before a model is called (TensorFlow profiler, input)"

    def check(self, profile: Profile) -> Finding:
        served, phases = profile.served, profile.phases
        if served is None or phases is None or phases.step_ms <= 0:
            return self.not_applicable("requests", "the run was not counted in requests")
        if served.before_ms is None:
            return self.not_applicable(
                "begin of requests", "needs requests in `with advisor.request():`, or `--objective requests`"
            )
        beside_ms = phases.step_ms * phases.share("other", "input_wait", "transfer")
        spent_ms = min(served.before_ms, beside_ms)
        share = max(0.0, spent_ms - LEAST_MS) / phases.step_ms
        title = f"{percent(share)} of each request passes before a model is called"
        if share < THRESHOLD:
            return self.passed(title)
        made = next((each for each in served.made if each.inside_ms >= EXPLAINED * spent_ms), None)
        if made is not None:
            return self.passed(f"{title}; `{made.call}` says why")
        spots = [spot for spot in profile.hotspots if spot.phase in ("other", "input_wait")]
        spot = max(spots, key=lambda each: each.share, default=None)
        if spot is not None and asks(profile, spot.location):
            return self.passed(f"{title}, in what a library does around it")
        where = f" at {PurePath(spot.location.file).name}:{spot.location.line}" if spot is not None else ""
        return self.opportunity(
            title,
            self.timeline(share, NEEDED),
            advice=f"Make what is done{where} cheaper, or do it for the next request in another thread while "
            "the model answers this one.",
            location=spot.location if spot is not None else None,
            evidence={"before_ms": round(spent_ms, 4), "request_ms": round(phases.step_ms, 4)},
        )
