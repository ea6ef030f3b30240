"""Each new token has all tokens before it computed again."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.5  # of all tokens; prompts that grow by a turn stay below (set by experiment)


class KvCacheOff(Rule):
    """A generation calls the model once per token; without a cache each call computes the whole text again.

    Keys and values of earlier tokens do not change. Kept in a cache, they leave one token to compute per
    call, so that a text of n tokens takes n and not n²/2 computations. The ceiling is what the last token
    alone takes in place of the whole text; reading the cache comes on top. Pass `use_cache=True` to
    `generate`, or hand `past_key_values` on from call to call and only the last token with it. The cache
    takes memory that grows with the text; answers change by rounding.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    knobs = ("kv_cache",)
    on_traces = "token numbers: a trace does not hold them"
    threshold = f"{percent(THRESHOLD)} of tokens were in the call before, at its begin (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        served = profile.served
        if served is None or served.tokens_again is None:
            return self.not_applicable("token numbers", "no model was called with any")
        said = f"{percent(served.tokens_again)} of tokens were computed in the call before"
        if served.tokens_again < THRESHOLD or served.prefix is None:
            return self.passed(said)
        title = f"{said}, {served.prefix:.0f} for each new one"
        advice = (
            "Keep keys and values: `generate(..., use_cache=True)`, or pass `past_key_values` and only the "
            "last token; it takes memory that grows with the text."
        )
        evidence = {"tokens_again": round(served.tokens_again, 3), "tokens_before": round(served.prefix, 1)}
        if served.last_token is None or profile.phases is None:
            return self.diagnostic(title, advice=advice, evidence=evidence)
        evidence["time_of_last_token"] = round(served.last_token, 3)
        saved = max(0.0, 1 - served.last_token) * profile.phases.share("forward")
        return self.opportunity(title, self.modelled(saved), advice=advice, evidence=evidence)
