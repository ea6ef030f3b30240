"""Optuna's sampler, made anew for each proposal from the seed and the number of that proposal.

A sampler keeps a random state, and one with a Gaussian process also what it fitted last: both are lost when a
study is cut off. Without them a resumed study proposes what an undisturbed one would.
"""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import optuna

Kind = Literal["tpe", "gp"]

GP_TRIALS = 60  # most that a Gaussian process learns from: its cost grows with their cube
STEP = 100_003  # a prime: seeds of different proposals do not meet


def sampler_for(kind: Kind, seed: int, number: int) -> "optuna.samplers.BaseSampler":
    """The sampler of one proposal.

    Args:
        kind: ``tpe`` for a tree of Parzen estimators, ``gp`` for a Gaussian process, which a tree follows
            after ``GP_TRIALS``.
        seed: Of the study.
        number: Of proposals and measurements before this one, as an undisturbed study counts them.
    """
    import optuna

    own = (seed + STEP * number) % 2**32
    if kind == "gp" and number < GP_TRIALS:
        return optuna.samplers.GPSampler(seed=own)
    return optuna.samplers.TPESampler(seed=own)


def once_more(sampler: "optuna.samplers.BaseSampler", number: int) -> "optuna.samplers.BaseSampler":
    """What proposes further after a proposal of ``sampler`` that is of no use, and nothing new is known.

    A Gaussian process would propose the same, so a tree follows it; others go on.
    """
    import optuna

    is_process = isinstance(sampler, optuna.samplers.GPSampler)
    return optuna.samplers.TPESampler(seed=number) if is_process else sampler
