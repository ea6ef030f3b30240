"""A sampler of Optuna's that is told what it may sample, in place of looking through all trials for it.

Here every trial has the same parameters. To look for what all trials have in common before each proposal
would cost more and more in a long study.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState


def knowing(sampler: BaseSampler, distributions: Mapping[str, BaseDistribution]) -> BaseSampler:
    """A sampler that proposes as ``sampler`` does; ``distributions`` are those of every trial."""
    searched = {name: each for name, each in sorted(distributions.items()) if not each.single()}
    return _Knowing(sampler, searched)


class _Knowing(BaseSampler):
    def __init__(self, inner: BaseSampler, searched: dict[str, BaseDistribution]) -> None:
        self._inner = inner
        self._searched = searched

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that are proposed together: all that have a choice."""
        return self._searched

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As the sampler does it."""
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """As the sampler does it."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """As the sampler does it."""
        self._inner.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """As the sampler does it."""
        self._inner.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """As the sampler does it."""
        self._inner.after_trial(study, trial, state, values)
