"""A model or its state is copied in each step, one tensor after the other."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule
from advisor.advice.rule import Family, percent
from advisor.profiles.derived.line_time import line_share
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.piecewise_calls import FREE
from advisor.rules.tensor_loop import TURNS

THRESHOLD = 0.05  # of the step, as for `tensor_loop`
NEEDED = 0.5  # relative error of the ceiling: the numbers must still be written


class CopiedWeights(LineRule):
    """`copy.deepcopy(model)` walks every module and object, and makes each tensor anew.

    Done in each step, for an average of weights, a target network or the best state so far, it costs
    milliseconds of Python and of fresh memory for what is one pass over the weights. Keep one copy and write
    into it: `torch._foreach_copy_(copies, weights)` under `torch.no_grad()`, `torch._foreach_lerp_` for an
    average, `torch.optim.swa_utils.AveragedModel`; copy a best state when it is better, not in each step. The
    ceiling is all the time at the line that copies.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "lines of the program: are met by sampling it"
    threshold = (
        f"a line that clones {TURNS} tensors and more in each step, none of which needs another, with 5 % of "
        "the step (as for `tensor_loop`)"
    )
    explains = ("unattributed_time", "hot_line", "launch_bound", "page_fault_bound", "garbage_collection")

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        lines = [line for line in profile.line_calls if _copies(line)]
        shares = {line.location: line_share(profile, line) for line in lines}
        share = min(1.0, sum(shares.values()))
        said = f"{percent(share)} of each step copies tensors one after the other"
        if share < THRESHOLD:
            return self.passed(said)
        worst = max(lines, key=lambda line: shares[line.location])
        return self.opportunity(
            f"{said}: {worst.turns} at {worst.location}",
            self.timeline(share, NEEDED),
            advice="Keep one copy and write into it by `torch._foreach_copy_(copies, weights)`, not as "
            f"{worst.location} does. An average of weights is "
            "`torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(...))`.",
            location=worst.location,
            evidence={
                "tensors": worst.turns,
                "lines": {str(place): round(each, 3) for place, each in shares.items()},
            },
        )


def _copies(line: LineCalls) -> bool:
    return "clone" in line.functions and line.turns >= TURNS and line.turns >= FREE * line.chain
