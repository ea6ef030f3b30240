"""Whether a backward is still to come through a graph that was made before: then no weight may be touched.

At the border after the first of two updates, as of an adversarial pair, the loop may hold what the second one
needs: a forward whose graph refers to the weights as they were.
"""

import gc
from typing import Any

MOST_NODES = 100_000  # of one graph that are looked at; a larger one counts as pending
SAVED = "_saved_"  # how a node of torch names what its backward needs; nodes in Python have "saved_tensors"


def has_pending_graph() -> bool:
    """Whether a tensor lives whose graph is pending."""
    from torch import Tensor

    gc.collect()  # what nobody can reach is run by nobody
    living = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
    ends = {tensor.grad_fn for tensor in living if not tensor.is_inference()} - {None}
    return any(map(is_pending, ends))


def is_pending(end: Any) -> bool:
    """Whether the graph that ends in this node saves tensors, and none of its nodes has been run."""
    from torch import Tensor

    nodes, known, saves = [end], {end}, False
    while nodes and len(known) <= MOST_NODES:
        node = nodes.pop()
        for name in (each for each in dir(node) if each.startswith(SAVED) or each == "saved_tensors"):
            try:
                saved = getattr(node, name)
            except RuntimeError:  # freed: so torch answers
                return False
            saves |= any(
                isinstance(each, Tensor) for each in (saved if isinstance(saved, tuple) else [saved])
            )
        before = {each for each, _ in node.next_functions if each is not None} - known
        known |= before
        nodes += before
    return saves
