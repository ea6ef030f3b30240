"""A search's side of Optuna: each trial is asked for and told, so that its sampler knows what was found."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from advisor.fault_points import hit
from advisor.tuners.knob import Value
from advisor.tuners.learnt import Learnt
from advisor.tuners.sampling import once_more
from advisor.tuners.space import Space

if TYPE_CHECKING:
    import optuna

TRIES = 12  # proposals of a sampler, until what is left of the space is taken in order
REPEATS = "advisor:repeats"  # of Optuna's trial: how often what was known was proposed before it

Config = dict[str, Value]


@dataclass(frozen=True)
class Proposal:
    """What a sampler proposed.

    Attributes:
        params: As proposed, of the searched knobs.
        config: The same as it is tried.
        repeats: How often it proposed before what was known already.
    """

    params: Config
    config: Config
    repeats: int


@dataclass
class Asking:
    """One study of Optuna's, in which nobody else runs trials.

    The study holds all trials; what the sampler learns from lies in memory, and is bounded.

    Attributes:
        sampler: Makes the sampler of a proposal from the number of those before; the study's own without it.
    """

    study: "optuna.Study"
    space: Space
    sampler: "Callable[[int], optuna.samplers.BaseSampler] | None" = None
    _told: int = 0
    _refused: set[str] = field(default_factory=set)
    _asked: dict[int, Config] = field(default_factory=dict)
    _learnt: Learnt = field(init=False)
    _rest: Iterator[Config] = field(init=False)

    def __post_init__(self) -> None:
        self._learnt, self._rest = Learnt(self._distributions()), self._in_order()
        for trial in self.study.get_trials(deepcopy=False, states=(_state("COMPLETE"), _state("PRUNED"))):
            known = trial.params.keys() == self.space.choices.keys()
            self._note(trial.params if known else None, -math.inf if trial.value is None else trial.value)

    def propose(
        self,
        failed: int,
        new: Callable[[Config], bool],
        allowed: Callable[[Config], bool],
        most_repeats: float,
    ) -> Proposal | None:
        """What the sampler proposes next that is new and allowed; else what is left of the space, in order.

        Args:
            failed: How many configurations failed so far. Those that were cut off count nowhere.
            new: Whether the search has not come to a configuration yet.
            allowed: Whether it may be tried. Neither answer ever turns from no to yes.
            most_repeats: With so many proposals that are not new there is none.
        """
        number = self._told + failed
        first = self.study.sampler if self.sampler is None else self.sampler(number)
        repeats, proposals = 0, self._learnt.proposals(first, once_more(first, number))
        try:
            for _ in range(TRIES):
                params = next(proposals)
                config = self.space.complete(params)
                if not new(config):
                    repeats += 1
                    if repeats >= most_repeats:
                        return None
                elif allowed(config):
                    return Proposal(params, config, repeats)
        finally:
            proposals.close()
        for config in self._rest:
            if new(config) and allowed(config):
                return Proposal({name: config[name] for name in self.space.choices}, config, repeats)
        return None

    def take(self, config: Config, proposal: Proposal | None = None) -> int:
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
                distributions=self._distributions(),
                user_attrs={} if proposal is None else {REPEATS: proposal.repeats},
                system_attrs={"fixed_params": params} if proposal is None else {},
            )
        )
        hit("ask.between")
        running = self.study.get_trials(deepcopy=False, states=(_state("RUNNING"),))
        asked = max(trial.number for trial in running)
        self._asked = {asked: params}
        hit("ask.after")
        return asked

    def tell(self, asked: int, score: float) -> None:
        """Tell the score of the trial begun last; one that is not finite is of no use to a sampler."""
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
        """Tell that it was refused: once, though a resumed search finds that out again."""
        if self.space.key(self._asked[asked]) in self._refused:
            self.study.tell(asked, state=_state("FAIL"))
        else:
            self.study.tell(asked, state=_state("PRUNED"))
            self._note(self._asked[asked], -math.inf)

    def earlier(self, failures: Collection[str], seen: Collection[str]) -> Iterator[Proposal]:
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
                yield Proposal(dict(trial.params), config, trial.user_attrs.get(REPEATS, 0))

    def _note(self, params: Config | None, score: float) -> None:
        """Count what was told, and learn from it where it is one of this space."""
        self._told += 1
        if params is not None:
            self._learnt.tell(params, score)
            if not math.isfinite(score):
                self._refused.add(self.space.key(params))

    def _in_order(self) -> Iterator[Config]:
        """Every configuration of the space; some several times, where they mean the same."""
        for values in product(*self.space.choices.values()):
            yield self.space.complete(dict(zip(self.space.choices, values, strict=True)))

    def _distributions(self) -> "dict[str, optuna.distributions.BaseDistribution]":
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(choices) for name, choices in self.space.choices.items()}


def _state(name: str) -> "optuna.trial.TrialState":
    import optuna

    return optuna.trial.TrialState[name]
