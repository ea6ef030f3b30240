"""A bias is added that the following batch norm subtracts again."""

from math import prod

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost, Window

NORMS = ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm")
GRADIENT = "torch::autograd::AccumulateGrad"  # stores the gradient of one parameter
VECTORS = 3  # per norm behind a bias: the bias, and weight and bias of the norm
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


class BiasBeforeNorm(Rule):
    """Batch norm subtracts the mean of its input, and with it whatever the layer before added as bias.

    The bias learns nothing, yet it is added in every forward, its gradient sums up a whole activation in
    every backward, and it is updated like any parameter. The ceiling holds what the recorded window shows
    of all three; where a convolution hides the sum, it is modelled as one more reading of the gradient:
    bytes of the norm's inputs / memory speed. With small layers the update is the larger part: it is the
    share of the biases in what is done to vectors of their length, where the optimizer updates each
    parameter by itself.
    Build the layer with `nn.Conv2d(..., bias=False)` or `nn.Linear(..., bias=False)`. The saved model
    then lacks these tensors, so older checkpoints load with `strict=False`.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "root modules: a trace does not hold the model"
    threshold = "a bias directly before batch norm in training, 2 % of the step (PyTorch pattern matcher)"
    recorded = True

    def check(self, profile: Profile) -> Finding:
        phases, window = profile.phases, profile.window
        if not profile.roots:
            return self.not_applicable("root modules", "no model was found")
        names = [name for root in profile.roots for name in root.biases_before_norm]
        if not names:
            return self.passed("0 biases stand before a batch norm")
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if window is None or not window.with_shapes:
            return self.not_applicable("operators with shapes", "needs a recorded window")
        norms = [op for op in window.ops if op.name in NORMS and op.phase == "forward" and op.shapes]
        if not norms:
            return self.passed(f"0 batch norms ran in training after {len(names)} biases")
        seen_ms, hidden_bytes = _costs(window, norms, len(names))
        speed = profile.rates.memory_sequential if profile.rates is not None else None
        if hidden_bytes and speed is None and not seen_ms:
            return self.not_applicable("speed of memory", "needs measured rates of the machine")
        hidden_ms = 1000 * hidden_bytes / speed if speed else 0.0
        updated_ms = _updated_ms(window, norms, len(names))
        share = (seen_ms + hidden_ms + updated_ms) / phases.step_ms
        location = next((root.location for root in profile.roots if root.biases_before_norm), None)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        biases = "1 bias" if len(names) == 1 else f"{len(names)} biases"
        return self.opportunity(
            f"{percent(share)} of the step goes to {biases} that batch norm undoes",
            self.modelled(share) if hidden_ms else self.timeline(share),
            advice=f"Build `{names[0]}`{more} with `bias=False`; the saved model then lacks these tensors.",
            location=location,
            evidence={
                "biases": len(names),
                "first": list(names[:5]),
                "measured_ms": round(seen_ms, 4),
                "modelled_ms": round(hidden_ms, 4),
                "updated_ms": round(updated_ms, 4),
            },
        )


def _costs(window: Window, norms: list[OpCost], biases: int) -> tuple[float, float]:
    """Milliseconds of bias operators seen, and bytes of gradients whose sum a convolution hides."""
    inputs = {op.shapes[0] for op in norms}
    sums = [op for op in window.ops if _is_gradient(op, inputs)]
    adds = [op for op in window.ops if _is_addition(op, inputs)]
    summed = {op.shapes[0] for op in sums}
    biased = min(1.0, biases / sum(op.calls for op in norms))
    hidden = sum(
        op.calls * prod(op.shapes[0]) * BYTES.get(op.dtype or "", 4)
        for op in norms
        if op.shapes[0] not in summed
    )
    return sum(op.self_ms for op in [*sums, *adds]), biased * hidden


def _updated_ms(window: Window, norms: list[OpCost], biases: int) -> float:
    """Milliseconds in which gradients of such biases are stored and the biases updated."""
    total = 0.0
    biased = min(1.0, biases / sum(op.calls for op in norms))
    for length in {op.shapes[0][1] for op in norms if len(op.shapes[0]) > 1}:
        calls = sum(op.calls for op in norms if op.shapes[0][1:2] == (length,))
        of_vectors = [op for op in window.ops if op.shapes[:1] == ((length,),)]
        stored = [op for op in of_vectors if op.name == GRADIENT]
        updates = [op for op in of_vectors if op.phase == "optimizer"]
        vectors = sum(op.calls for op in stored) or VECTORS * calls
        total += min(1.0, biased * calls / vectors) * sum(op.self_ms for op in [*stored, *updates])
    return total


def _is_gradient(op: OpCost, inputs: set[tuple[int, ...]]) -> bool:
    return (
        op.name == "aten::sum" and op.phase == "backward" and op.shapes[:1] != () and op.shapes[0] in inputs
    )


def _is_addition(op: OpCost, inputs: set[tuple[int, ...]]) -> bool:
    if op.name != "aten::add_" or op.phase != "forward" or len(op.shapes) < 2:
        return False
    target, added = op.shapes[:2]
    return target in inputs and added != () and prod(added) == target[1]
