"""A Python loop takes a tensor apart piece by piece."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import CONVOLUTIONS, MATMULS, RECURRENT, share_of_step
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Repetition

LEAST_COUNT = 10  # turns of one loop; torch's pattern matcher
EACH = 0.5  # of the calls of a line that need the one before, as for `unrolled_recurrence`
INDEXING = ("aten::select", "aten::slice", "aten::index", "aten::narrow", "aten::unbind", "aten::gather")
PRODUCTS = MATMULS | CONVOLUTIONS | RECURRENT | {
    "aten::linear", "aten::matmul", "aten::einsum", "aten::conv1d", "aten::conv2d", "aten::conv3d",
    "aten::lstm", "aten::gru", "aten::lstm_cell", "aten::gru_cell", "aten::rnn_tanh_cell",
    "aten::rnn_relu_cell", "aten::scaled_dot_product_attention",
}  # fmt: skip
"""As a program calls them: what a cell over time or a model for each row has in its loop."""


class IndexingLoop(Rule):
    """The same line indexes a tensor many times in a row, as in `for i in range(len(x)): y[i] = f(x[i])`.

    Every turn calls several operators on a small piece, and each call costs microseconds, however small the
    piece. One operator over the whole tensor does the same in one call: `y = f(x)`, `torch.gather`,
    `index_select`, a mask with `torch.where`, or `torch.vmap`. A loop in which a turn needs the result of the
    turn before, such as a recurrent cell over time, cannot be replaced that way; loops with matrix products
    inside are therefore only mentioned.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = (
        "indexing and the same operators repeated at least 10 times from one line (torch pattern matcher)"
    )
    explains = ("idle_device", "unattributed_time")
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        loops = [each for each in window.repetitions if _indexes(each)]
        share = share_of_step(profile, sum(each.ms for each in loops))
        title = f"{percent(share)} of each step indexes tensors in Python loops"
        if share < self.least:
            return self.passed(title)
        plain = [each for each in loops if not _multiplies(each)]
        worst = max(plain or loops, key=lambda each: each.ms)
        place = f" at {worst.location}" if worst.location else ""
        evidence = {
            "loops": [
                {"operators": list(each.ops), "turns": each.count, "ms": round(each.ms, 4)} for each in loops
            ]
        }
        plain_share = share_of_step(profile, sum(each.ms for each in plain))
        if plain_share < self.least and _in_turn(profile, worst):
            return self.passed(f"{title}; each turn needs the one before")
        if plain_share < self.least:
            return self.diagnostic(
                title,
                advice=f"Pass all pieces{place} in one call, `model(x)` for `[model(row) for row in x]`, "
                "if no turn needs the result of the turn before.",
                severity=Severity.LOW,
                location=worst.location,
                evidence=evidence,
                kind=Kind.HEADROOM,
            )
        return self.opportunity(
            f"{percent(plain_share)} of each step indexes tensors in Python loops",
            self.timeline(plain_share),
            advice=f"Replace the loop{place} by one operator over the whole tensor, such as `index_select`, "
            "`torch.where` or `F.one_hot`, if no turn needs the result of the turn before; what no batch "
            "changes is made once, in front of the loop (`register_buffer`).",
            location=worst.location,
            evidence=evidence,
        )


def _indexes(repetition: Repetition) -> bool:
    """Whether it is a loop over pieces in the step itself; those of the loader are for the input rules."""
    return (
        repetition.count >= LEAST_COUNT
        and repetition.phase != "loader"
        and any(op.startswith(INDEXING) for op in repetition.ops)
    )


def _multiplies(repetition: Repetition) -> bool:
    return any(op in PRODUCTS for op in repetition.ops)


def _in_turn(profile: Profile, loop: Repetition) -> bool:
    """Whether layers called in the function of the loop were seen to need each other's results."""
    here = None if loop.location is None else (loop.location.file, loop.location.function)
    return any(
        line.weights and line.turns >= LEAST_COUNT and line.chain >= EACH * line.turns
        for line in profile.line_calls
        if (line.location.file, line.location.function) == here
    )
