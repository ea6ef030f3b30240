"""What pairs of processes on several nodes say together of a change."""

import math
from collections.abc import Sequence

NODE_SPREAD = 0.03  # log ratio by which like nodes differ in what a change brings: an assumption
CHOSEN_OF = 8  # settings that can be chosen by what these nodes make of them (`benchmarks.benches --placebo`)


def over_nodes(
    medians: Sequence[float], nodes: Sequence[str], level: float, half: float
) -> tuple[float, float]:
    """Mean of the means of nodes, and half of its interval, as of ``widened``.

    Args:
        medians: Log ratios of pairs.
        nodes: Of each.
        level: Two-sided confidence.
        half: Of the interval of all pairs, were they of one node.
    """
    by_node: dict[str, list[float]] = {}
    for node, value in zip(nodes, medians, strict=True):
        by_node.setdefault(node, []).append(value)
    means = [sum(values) / len(values) for values in by_node.values()]
    count, centre = len(means), sum(means) / len(means)
    seen = math.sqrt(sum((mean - centre) ** 2 for mean in means) / max(count - 1, 1))
    return centre, widened(half, count, level, seen)


def widened(half: float, nodes: int, level: float, seen: float = 0.0) -> float:
    """Half of an interval of pairs, widened by what nodes differ by, as a variance component of its own.

    Few nodes may be alike by chance, so it is ``NODE_SPREAD`` where they were seen to differ by less. The
    search chose the change on the same nodes, which added the largest of ``CHOSEN_OF`` to it (Bonferroni).

    Args:
        half: Of the interval, were they of one node.
        nodes: On which they were measured, at least one.
        level: Two-sided confidence.
        seen: Spread of the means of nodes.
    """
    from scipy.stats import norm

    apart = max(NODE_SPREAD, seen) / math.sqrt(nodes)
    return math.hypot(half, float(norm.ppf(1 - (1 - level) / 2 / CHOSEN_OF)) * apart)
