"""A new optimizer is made for every few updates."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import OptimizerFacts, Profile

RENEWED = 3  # fewer may be phases of a training
UPDATES = 10  # of each, up to which it is no phase; momenta of Adam reach over 10 to 1000 updates


class OptimizerRecreated(Rule):
    """The line that makes the optimizer runs within the loop, so what it has learnt of gradients is lost.

    Momenta and the averages of squares begin at zero each time: Adam's first update moves every weight by the
    whole rate, whatever its gradient is, and momentum never builds up. A schedule that holds the old one
    changes rates that nobody uses. Making it costs time as well, most where there are many parameters. Make
    it once, in front of the loop, and change what it holds.
    """

    family = Family.OPTIMIZER
    kind = Kind.RISK
    severity = Severity.HIGH
    on_traces = "optimizers that the program makes: a trace does not hold them"
    threshold = f"{RENEWED} optimizers made in place of another, for {UPDATES} updates each at most (chosen)"
    timed = False
    correctness = True
    explains = ("hot_line", "unattributed_time")

    def check(self, profile: Profile) -> Finding:
        if not profile.optimizers:
            return self.not_applicable("optimizer", "no update of one was seen")
        worst = max(profile.optimizers, key=lambda each: each.renewed)
        if worst.updates is None:
            return self.not_applicable("updates of the optimizer", "need a run of the program")
        if worst.renewed < RENEWED:
            return self.passed("the optimizer stays the same")
        made = worst.renewed + 1
        each = worst.updates / made
        said = f"{made} optimizers were made for {worst.updates} updates"
        if each > UPDATES:
            return self.passed(said)
        keeps = bool(worst.state_bytes)
        lost = "each begins with no momenta" if keeps else "each is made anew from the same parameters"
        return self.diagnostic(
            f"{said}: {lost}",
            advice=_advice(worst),
            severity=Severity.HIGH if keeps else Severity.LOW,
            location=worst.location,
            evidence={"optimizers": made, "updates": worst.updates, "state_bytes": worst.state_bytes},
        )


def _advice(optimizer: OptimizerFacts) -> str:
    place = f" that {optimizer.location} makes" if optimizer.location is not None else ""
    return (
        f"Make the `{optimizer.name}`{place} once, before the first step. Another rate needs no new one: "
        "`for group in optimizer.param_groups: group['lr'] = rate`; further parameters are added by "
        "`optimizer.add_param_group(...)`."
    )
