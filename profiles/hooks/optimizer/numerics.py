"""The first loss or gradient of a run that is NaN or infinite."""

import math
from typing import Any

from advisor.profiles.hooks.model.roots import Roots
from advisor.profiles.hooks.optimizer.losses import Losses
from advisor.profiles.hooks.optimizer.optimizers import Optimizers


def nonfinite_facts(losses: Losses, optimizers: Optimizers, roots: Roots) -> dict[str, Any]:
    """Fields of ``RunFacts``; reads the device.

    Kept losses and gradient norms are looked at, and what inspected steps showed. A gradient scaler finds
    infinite gradients by itself and skips the update, so norms under one say nothing.
    """
    kept = losses.values()
    seen = [(step, 0, "loss") for step in _first(kept)]
    if not losses.scaler.used:
        seen += [(step, 1, "gradient") for step in _first([float(norm) for norm in optimizers.norms])]
    if losses.nonfinite is not None:
        seen.append((losses.nonfinite, 0, "loss"))
    if optimizers.nonfinite is not None:
        seen.append((optimizers.nonfinite[0], 1, "gradient"))
    checks = max(len(kept), len(optimizers.norms)) + losses.inspected
    if not seen:
        return {"finite_checks": checks or None}
    step, _, what = min(seen)
    found = optimizers.nonfinite
    return {
        "finite_checks": checks,
        "nonfinite": what,
        "nonfinite_step": step,
        "nonfinite_module": None if found is None else roots.name_of(found[1]),
    }


def _first(values: list[float]) -> list[int]:
    return [step for step, value in enumerate(values) if not math.isfinite(value)][:1]
