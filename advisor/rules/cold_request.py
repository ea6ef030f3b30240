"""The first request takes many times as long as those after it."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile

TIMES = 10.0  # a usual request; set by experiment
MORE_MS = 200.0  # beyond a usual request: what somebody waiting for an answer notices (set by experiment)


class ColdRequest(Rule):
    """Whoever comes first waits for what is done at first use: loading, compiling, choosing kernels.

    The same happens in each process, after each restart and each time that a server adds one. Answer a
    request with a typical input before the process says that it is ready, one for each size that is compiled.
    Store what is compiled ahead (`.pt2` of AOTInductor), or keep the compiler's cache. Only where the program
    marks its requests can a call that warms up be told from the first of them.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "the first request: a trace does not tell which it is"
    threshold = f"first marked request {TIMES:.0f} times a usual one, {MORE_MS:.0f} ms more (by experiment)"

    def check(self, profile: Profile) -> Finding:
        served, phases = profile.served, profile.phases
        if served is None or phases is None or phases.step_ms <= 0:
            return self.not_applicable("requests", "the run was not counted in requests")
        if served.first_ms is None:
            return self.not_applicable("the first request", "needs requests in `with advisor.request():`")
        more_ms = served.first_ms - phases.step_ms
        said = f"{_ms(served.first_ms)} took the first request, later ones {_ms(phases.step_ms)}"
        if served.first_ms < TIMES * phases.step_ms or more_ms < MORE_MS:
            return self.passed(said)
        return self.diagnostic(
            said,
            advice="Answer one request with a typical input before the process is open for others, or "
            "compile ahead of time and load the result.",
            evidence={"first_ms": round(served.first_ms, 1), "usual_ms": round(phases.step_ms, 3)},
        )


def _ms(spent: float) -> str:
    return f"{spent:,.0f} ms" if spent >= 100 else f"{spent:.3g} ms"
