"""What recorded steps and known modules show that a program computes."""

from typing import Literal

from advisor.profiles.derived.eligibility import ATTENTIONS
from advisor.profiles.facts.profile import Profile

Norms = Literal["foreach", "for-loop", "none"]


def calls_attention(profile: Profile) -> bool | None:
    """Whether ``scaled_dot_product_attention`` was called; ``None`` without recorded operators."""
    window = profile.window
    if window is None or not window.ops:
        return None
    return any("scaled_dot_product" in op.name or op.name in ATTENTIONS for op in window.ops)


def gradient_norms(profile: Profile) -> Norms | None:
    """How norms of gradients are taken between backward and update; ``None`` without recorded operators.

    ``clip_grad_norm_`` takes them in groups (``foreach``) or one by one. It ends with one norm over all of
    them, so a single one tells nothing.
    """
    window = profile.window
    if window is None or not window.ops:
        return None
    between = [op for op in window.ops if op.phase == "other"]
    if any(op.name == "aten::_foreach_norm" for op in between):
        return "foreach"
    norms = sum(op.calls for op in between if op.name == "aten::linalg_vector_norm")
    return "for-loop" if norms > 1 else "none"


def has_convolutions(profile: Profile) -> bool:
    """Whether a root module contains convolutions."""
    return any(root.dense_convolutions or root.convolution_dimensions for root in profile.roots)
