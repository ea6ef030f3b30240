"""What torch 1.8 to 1.10 wrote in traces, in the words that later versions use.

Categories were ``Operator``, ``Kernel``, ``Memcpy``, ``Memset`` and ``Runtime``; ranges (``ProfilerStep#``,
``enumerate(DataLoader)#``, those of ``record_function``) were operators as well, and nodes of the autograd
graph stood by their bare names, not within an ``evaluate_function``.
"""

import re

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import CATEGORIES, Numbers

OPERATOR = "Operator"
SINCE = {
    OPERATOR: "cpu_op", "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
}  # fmt: skip
"""Older names of categories, and what they are called since torch 1.11."""

NODE = re.compile(r"\w+Backward\d*|torch::autograd::\w+")
EVALUATING = "autograd::engine::evaluate_function"


def renamed(names: list[str], name: Numbers, category: NDArray[np.uint8]) -> None:
    """Give names and categories of an older trace's operators their present form, in place.

    Args:
        names: Distinct names.
        name: Of each event, the position in ``names``.
        category: Of each event, the position in ``CATEGORIES``.
    """
    operators = category == CATEGORIES.index("cpu_op")
    used = np.flatnonzero(np.bincount(name[operators], minlength=len(names))).tolist()
    if any(names[at].startswith(EVALUATING) for at in used):
        bare: list[int] = []
    else:
        bare = [at for at in used if NODE.fullmatch(names[at])]
    ranges = [at for at in used if "::" not in names[at] and at not in bare]
    category[operators & np.isin(name, ranges)] = CATEGORIES.index("user_annotation")
    for at in bare:
        names[at] = f"{EVALUATING}: {names[at]}"
