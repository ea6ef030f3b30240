"""DDP looks for unused parameters in every step and finds none."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class UnusedParameterSearch(Rule):
    """With `find_unused_parameters=True`, DDP walks the whole autograd graph after each forward.

    That is needed only where some parameters get no gradient in some steps; here every one got its own. The
    walk costs host time for each operator, and gradients start to be sent later. Leave the argument out, or
    say `static_graph=True` where every step uses the same parameters.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "arguments of DistributedDataParallel: a trace does not hold them"
    threshold = "the search is on and no parameter is unused (PyTorch tuning guide)"
    knobs = ("static_graph",)

    def check(self, profile: Profile) -> Finding:
        if not profile.ranks:
            return self.not_applicable("ranks", "the run is a single process")
        wrapped = [root for root in profile.roots if root.find_unused_parameters is not None]
        if not wrapped:
            return self.not_applicable("DistributedDataParallel", "no model is wrapped in it")
        searching = [root for root in wrapped if root.find_unused_parameters and not root.static_graph]
        if not searching:
            return self.passed(f"0 of {len(wrapped)} models search for unused parameters")
        judged = [root for root in searching if root.unused_parameters is not None]
        if not judged:
            return self.not_applicable("unused parameters", "no update was looked at")
        needless = next((root for root in judged if root.unused_parameters == 0), None)
        if needless is None:
            return self.passed(f"{judged[0].unused_parameters} parameters are unused: the search is needed")
        return self.diagnostic(
            f"0 of the parameters of {needless.name} are unused, and each step searches for them",
            advice="Leave out `find_unused_parameters=True`; a step that skips a parameter would then raise "
            "an error.",
            location=needless.location,
            evidence={"model": needless.name, "unused_parameters": 0},
        )
