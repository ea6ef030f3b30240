"""Many tensors are worked on one after the other, though torch has a call for the whole list."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule
from advisor.advice.rule import Family, percent
from advisor.profiles.derived.line_time import line_share
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.piecewise_calls import FREE

TURNS = 20  # of one line in a step; an optimizer of torch takes its list from some tensors on, too
THRESHOLD = 0.05  # of the step; set by experiment
OF_LISTS = (
    "mul_", "add_", "sub_", "div_", "lerp_", "copy_", "zero_", "sqrt_", "addcmul_", "addcdiv_", "clamp_",
    "neg_",
)  # fmt: skip
"""Functions in place of which `torch._foreach` has a form that takes a list."""
CHECKS = ("norm", "isnan", "isinf", "isfinite")
"""Those that `torch._foreach_norm` replaces: a norm is finite only where all of its tensor is."""


ELEMENTS = ("__getitem__", "__setitem__")
"""With these a loop goes through the elements of one tensor, of which one indexed call changes all."""


class TensorLoop(LineRule):
    """A loop calls a small operation for each tensor of a list: each costs microseconds, whatever its size.

    Averages of weights, target networks, gradients that are scaled or clipped by hand are such loops: some
    hundred parameters make some thousand calls a step. Collect the tensors once and give the list to one
    call, `torch._foreach_lerp_(averages, parameters, 0.001)`; `torch.optim.swa_utils.AveragedModel` with
    `get_ema_multi_avg_fn` keeps an average so, `torch.nn.utils.clip_grad_norm_` clips so. A loop over the
    elements of one tensor, as for a table of counts or a one-hot encoding, is one indexed call. Loops in
    which a call needs the result of the one before are told apart. The ceiling is all the time of these
    calls.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "which call needs which: a trace does not hold it"
    threshold = (
        f"{TURNS} calls of a function with a form for lists at one line, {FREE} times as many as need each "
        "other (by experiment)"
    )
    explains = ("unattributed_time", "launch_bound", "hot_line", "idle_device")

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        lines = [line for line in profile.line_calls if _is_loop(line)]
        share = min(1.0, sum(line_share(profile, each) for each in lines))
        said = f"{percent(share)} of each step works on tensors one after the other"
        if share < THRESHOLD or not lines:
            return self.passed(said)
        worst = max(lines, key=lambda line: line.share)
        names = ", ".join(f"`{name}`" for name in worst.functions)
        return self.opportunity(
            f"{said}: {worst.calls} calls of {names} at {worst.location}",
            self.timeline(share),
            advice=_advice(worst),
            location=worst.location,
            evidence={"calls": worst.calls, "turns": worst.turns, "functions": list(worst.functions)},
        )


def _is_loop(line: LineCalls) -> bool:
    """Whether a line changes or checks many tensors, each on its own."""
    listed = any(name in (*OF_LISTS, *CHECKS, "__setitem__") for name in line.functions)
    return listed and line.turns >= TURNS and line.turns >= FREE * line.chain and not line.graphed


def _advice(line: LineCalls) -> str:
    if any(name in ELEMENTS for name in line.functions):
        return (
            f"Change all elements at {line.location} by one indexed call, with all indices as tensors: "
            "`table.index_put_((rows, columns), values, accumulate=True)`; counts are "
            "`torch.bincount(rows * n + columns, minlength=n * n)`, labels as vectors `F.one_hot(labels, n)`."
        )
    return f"Give the whole list to one call in place of {line.location}: {_instead(line)}."


def _instead(line: LineCalls) -> str:
    changes = next((name for name in line.functions if name in OF_LISTS), None)
    if changes is None:
        return (
            "`torch._foreach_norm(tensors)`, whose norms are finite only where all numbers are; "
            "`torch.nn.utils.clip_grad_norm_(parameters, limit, error_if_nonfinite=True)` checks and clips "
            "gradients so"
        )
    return (
        f"`torch._foreach_{changes}(tensors, ...)`; an average of weights is "
        "`torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(...))`"
    )
