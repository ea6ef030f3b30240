"""Whether the bench of another node may stand beside the tuner's own: alike in all that times depend on."""

import math

from advisor.tuners.benches.messages import Opened

DEVIATES = 0.15  # log ratio of a step's time, beside noise, from which a like node is left out
# Like GPUs of one cluster differ by 8 % on average, the worst by 22 % (Sinha et al., SC 2022).
SPREADS = 4.0  # of both baselines, that a deviation must exceed as well


def unlike(like: Opened, other: Opened) -> str:
    """Why a bench may not stand beside another one; empty where it may.

    Args:
        like: What the bench of the tuner says of itself.
        other: What the other one says.
    """
    if other.fingerprint != like.fingerprint:
        return f"another kind of node ({other.described}; this one: {like.described})"
    if other.python != like.python:
        return f"another Python ({other.python}; here {like.python})"
    if other.digest != like.digest:
        return "the program there is not the same as here"
    apart = math.log(other.step_s / like.step_s)
    if abs(apart) > max(DEVIATES, SPREADS * math.hypot(like.sigma, other.sigma)):
        told = "slower" if apart > 0 else "faster"
        return f"its unchanged program is {math.exp(abs(apart)):.2f} times {told} than here"
    return ""
