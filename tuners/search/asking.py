"""A search's side of Optuna: each trial is asked for and told, so that its sampler knows what was found."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from advisor.base.fault_points import hit
from advisor.tuners.knob import Value
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

TRIES = 12  # proposals of a sampler, until what is left of the space is taken in order
GP_TRIALS = 60  # most that a Gaussian process learns from: its cost grows with their cube


@dataclass(frozen=True)
class Proposal:
    """What a sampler proposed.

    Attributes:
        params: As proposed, of the searched knobs.
        config: The same as it is tried.
        repeats: How often it proposed before what was known already.
    """

    params: dict[str, Value]
    config: Configuration
    repeats: int


@dataclass
class Asking:
    """One study of Optuna's, in which nobody else runs trials.

    The study holds each trial once. Its sampler proposes from a copy in memory, told all that was measured,
    where proposals of no use leave no trace.
    """

    study: "optuna.Study"
    space: Space
    _told: int = 0
    _asked: dict[int, dict[str, Value]] = field(default_factory=dict)
    _copy: "optuna.Study" = field(init=False)
    _stored: "dict[str, BaseDistribution]" = field(default_factory=dict)
    _rest: Iterator[Configuration] = field(init=False)

    def __post_init__(self) -> None:
        import optuna

        self._copy, self._rest = optuna.create_study(direction="maximize"), self._in_order()
        for trial in self.study.get_trials(deepcopy=False):
            self._stored |= trial.distributions
            if trial.state in (_state("COMPLETE"), _state("PRUNED")):
                self._note(trial.params, -math.inf if trial.value is None else trial.value)

    def propose(
        self,
        new: Callable[[Configuration], bool],
        allowed: Callable[[Configuration], bool],
        most_repeats: float,
    ) -> Proposal | None:
        """What the sampler proposes next that is new and allowed; else what is left of the space, in order.

        Args:
            new: Whether the search has not come to a configuration yet.
            allowed: Whether it may be tried. Neither answer ever turns from no to yes.
            most_repeats: With so many proposals that are not new there is none.
        """
        repeats, useless = 0, []
        try:
            for _ in range(TRIES):
                self._copy.sampler = self._sampler(repeats)
                trial = self._copy.ask(self._distributions())
                useless.append(trial)
                config = self.space.complete(trial.params)
                if not new(config):
                    repeats += 1
                    if repeats >= most_repeats:
                        return None
                elif allowed(config):
                    return Proposal(dict(trial.params), config, repeats)
        finally:
            for trial in useless:  # the one that is taken is added once it is measured
                self._copy.tell(trial, state=_state("FAIL"))
        for config in self._rest:
            if new(config) and allowed(config):
                return Proposal({name: config[name] for name in self.space.choices}, config, repeats)
        return None

    def take(self, config: Configuration, proposal: Proposal | None = None) -> int:
        """Begin a trial; its number in Optuna's study.

        Args:
            config: What is tried.
            proposal: Where the sampler proposed it; else the search chose it itself.
        """
        import optuna

        params = {name: config[name] for name in self.space.choices} if proposal is None else proposal.params
        hit("ask.before")
        self.study.add_trial(
            optuna.trial.create_trial(
                state=_state("RUNNING"),
                params=params,
                # a study's choices cannot change: those that are refused by now are still among them
                distributions={n: self._stored.get(n, of) for n, of in self._distributions().items()},
                system_attrs={"fixed_params": params} if proposal is None else {},
            )
        )
        hit("ask.between")
        running = self.study.get_trials(deepcopy=False, states=(_state("RUNNING"),))
        asked = max(trial.number for trial in running)
        self._asked[asked] = params
        hit("ask.after")
        return asked

    def tell(self, asked: int, score: float) -> None:
        """Tell the score of a trial; one that is not finite is of no use to a sampler."""
        hit("tell.before")
        if math.isfinite(score):
            self.study.tell(asked, score)
        else:
            self.study.tell(asked, state=_state("PRUNED"))
        self._note(self._asked[asked], score)
        hit("tell.after")

    def fail(self, asked: int) -> None:
        """Tell that it failed."""
        hit("tell.before")
        self.study.tell(asked, state=_state("FAIL"))
        hit("tell.after")

    def refuse(self, asked: int) -> None:
        """Tell that it was refused."""
        self.study.tell(asked, state=_state("PRUNED"))
        self._note(self._asked[asked], -math.inf)

    def _note(self, params: dict[str, Value], score: float) -> None:
        """Have the sampler learn a score, where all settings are of this space."""
        import optuna

        choices = self.space.choices
        if params.keys() != choices.keys() or any(params[name] not in of for name, of in choices.items()):
            return
        self._told += 1
        finite = math.isfinite(score)
        self._copy.add_trial(
            optuna.trial.create_trial(
                state=_state("COMPLETE" if finite else "PRUNED"), params=params,
                distributions=self._distributions(), value=score if finite else None,
            )
        )  # fmt: skip

    def _sampler(self, repeats: int) -> "optuna.samplers.BaseSampler":
        """The study's own; a tree of Parzen estimators where a Gaussian process is slow or repeats itself."""
        import optuna

        own = self.study.sampler
        if isinstance(own, optuna.samplers.GPSampler) and (repeats or self._told >= GP_TRIALS):
            return optuna.samplers.TPESampler(seed=self._told)
        return own

    def _in_order(self) -> Iterator[Configuration]:
        """Every configuration of the space; some several times, where they mean the same."""
        for values in product(*self.space.choices.values()):
            yield self.space.complete(dict(zip(self.space.choices, values, strict=True)))

    def _distributions(self) -> "dict[str, BaseDistribution]":
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(choices) for name, choices in self.space.choices.items()}


def _state(name: str) -> "optuna.trial.TrialState":
    import optuna

    return optuna.trial.TrialState[name]
