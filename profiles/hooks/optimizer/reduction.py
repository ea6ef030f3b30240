"""Whether a loss is a sum over the batch, read from its graph: such losses grow with the batch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

NODES = 64  # how far to look; reductions stand near the end
MEAN, SUM = 1, 2  # values of a loss node's saved reduction
PASSED = ("AddBackward", "SubBackward", "NegBackward", "MulBackward", "ToCopyBackward", "AliasBackward")


def is_sum_reduced(loss: "Tensor") -> bool | None:
    """True for sums, False for means, ``None`` where the graph does not say.

    A sum that is divided afterwards may be a mean or not, so it stays open.
    """
    kinds: set[str] = set()
    waiting: list[Any] = [loss.grad_fn]
    for _ in range(NODES):
        if not waiting:
            break
        node = waiting.pop(0)
        if node is None:
            continue
        kind = _kind(node)
        kinds.add(kind)
        if kind in ("passed", "divided"):
            waiting.extend(next_node for next_node, _ in node.next_functions)
    if "mean" in kinds:
        return False
    return True if "sum" in kinds and "divided" not in kinds else None


def _kind(node: Any) -> str:
    name = node.name()
    reduction = getattr(node, "_saved_reduction", None)
    if reduction is not None:
        return {MEAN: "mean", SUM: "sum"}.get(reduction, "other")
    if name.startswith("MeanBackward"):
        return "mean"
    if name.startswith("SumBackward"):
        return "sum"
    if name.startswith("DivBackward"):
        return "divided"
    return "passed" if name.startswith(PASSED) else "other"
