"""A search's side of Optuna: each trial is asked for and told, so that its sampler knows what was found."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.fault_points import hit
from advisor.tuners.knob import Value
from advisor.tuners.space import Space

if TYPE_CHECKING:
    import optuna

Config = dict[str, Value]


@dataclass
class Asking:
    """One study of Optuna's.

    Attributes:
        sampler: Makes the sampler of a proposal from the number of those before; the study's own without it.
    """

    study: "optuna.Study"
    space: Space
    sampler: "Callable[[int], optuna.samplers.BaseSampler] | None" = None

    def propose(self, failed: int) -> "optuna.trial.Trial":
        """A proposal of the sampler.

        Args:
            failed: How many configurations failed so far. Those that were cut off count nowhere.
        """
        if self.sampler is not None:
            from advisor.tuners.known_space import knowing

            told = self.study.get_trials(deepcopy=False, states=(_state("COMPLETE"), _state("PRUNED")))
            self.study.sampler = knowing(self.sampler(len(told) + failed), self._distributions())
        hit("ask.before")
        trial = self.study.ask(self._distributions())
        hit("ask.after")
        return trial

    def take(self, config: Config) -> "optuna.trial.Trial":
        """A trial of a configuration that the search chose itself."""
        hit("ask.before")
        self.study.enqueue_trial({name: config[name] for name in self.space.choices})
        hit("ask.between")
        trial = self.study.ask(self._distributions())
        hit("ask.after")
        return trial

    def tell(self, trial: "optuna.trial.Trial", score: float) -> None:
        """Tell a score; one that is not finite is of no use to a sampler."""
        hit("tell.before")
        if math.isfinite(score):
            self.study.tell(trial, score)
        else:
            self.study.tell(trial, state=_state("PRUNED"))
        hit("tell.after")

    def fail(self, trial: "optuna.trial.Trial") -> None:
        """Tell that it failed."""
        hit("tell.before")
        self.study.tell(trial, state=_state("FAIL"))
        hit("tell.after")

    def refuse(self, trial: "optuna.trial.Trial", key: str) -> None:
        """Tell that it was refused: once, though a resumed search finds that out again."""
        told = self.study.get_trials(deepcopy=False, states=(_state("PRUNED"),))
        before = any(self.space.key(dict(other.params)) == key for other in told)
        self.study.tell(trial, state=_state("FAIL" if before else "PRUNED"))

    def earlier(self, failures: Collection[str], seen: Collection[str]) -> Iterator[Config]:
        """What the sampler proposed before the study was resumed, in order.

        What was cut off is left out: the sampler proposes it again.

        Args:
            failures: Keys of configurations that failed by themselves.
            seen: Keys that the search has come to, whenever the next one is taken.
        """
        for trial in self.study.get_trials(deepcopy=False):
            if "fixed_params" in trial.system_attrs or trial.params.keys() != self.space.choices.keys():
                continue
            config = self.space.complete(dict(trial.params))
            key = self.space.key(config)
            if trial.state in (_state("COMPLETE"), _state("PRUNED")) or (key in failures and key not in seen):
                yield config

    def _distributions(self) -> "dict[str, optuna.distributions.BaseDistribution]":
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(choices) for name, choices in self.space.choices.items()}


def _state(name: str) -> "optuna.trial.TrialState":
    import optuna

    return optuna.trial.TrialState[name]
