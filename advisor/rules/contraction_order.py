"""Several factors are multiplied in an order that makes a large tensor in between."""

from pathlib import PurePath

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule, paid
from advisor.advice.rule import Family, percent
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

THRESHOLD = 0.05  # of the step, as for results that nothing reads (set by experiment)
NEEDED = 0.5  # relative error of the ceiling: work is counted, not timed
KINDS = ("chain", "einsum")


class ContractionOrder(LineRule):
    """The result of several products is the same in any order, what it costs is not.

    Two factors of a low-rank weight are multiplied to the whole matrix before the batch is; scores of all
    places for all places are multiplied with values where nothing nonlinear stands between; `torch.einsum` of
    three and more tensors goes from left to right, and what it holds meanwhile may be larger than all of
    them. Multiply first what leaves the least: `(x @ a) @ b` in place of `x @ (a @ b)`. With the package
    `opt-einsum`, torch finds the order of an `einsum` itself. Sums round differently.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "what goes into which product: a trace does not hold it"
    threshold = "another order has half of the work, and spares at least 5 % of the step (set by experiment)"
    explains = (
        "hot_line",
        "fp32_matmul",
        "amp_unused",
        "unfused_pointwise",
        "page_fault_bound",
        "unattributed_time",
    )

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        """Judge a run whose lines are known."""
        lines = [line for line in profile.line_calls if line.reordered and line.reordered.kind in KINDS]
        share = _share(lines, phases)
        said = f"{percent(share)} of each step goes into the order of products"
        worst = max(lines, key=lambda line: _share([line], phases), default=None)
        if share < THRESHOLD or worst is None or worst.reordered is None:
            return self.passed(said)
        order = worst.reordered
        at = f"{PurePath(worst.location.file).name}:{worst.location.line}"
        return self.opportunity(
            f"{said}: at {at} one makes {order.elements:,} elements in between, where another has "
            f"{percent(order.kept)} of the work",
            self.timeline(share, NEEDED),
            advice=(
                f"Write the `einsum` at {at} as several of two tensors, those first that leave the least, or "
                "install `opt-einsum`, with which torch finds that order; sums round differently."
                if order.kind == "einsum"
                else f"Do not multiply the factors at {at} with each other first, but one of them with what "
                "the result goes into: `(x @ a) @ b` in place of `x @ (a @ b)`; sums round differently."
            ),
            location=worst.location,
            evidence={
                "elements": order.elements,
                "work_left": round(order.kept, 4),
                "times_per_step": order.calls,
                "functions": list(worst.functions),
                "lines": [str(line.location) for line in lines],
            },
        )


def _share(lines: list[LineCalls], phases: StepPhases) -> float:
    return paid(((line, line.reordered.share) for line in lines if line.reordered is not None), phases)
