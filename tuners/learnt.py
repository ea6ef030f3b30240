"""What a sampler learns from: the best and the latest trials, however many there were.

Optuna's tree of Parzen estimators looks at every trial before each proposal, so in a long study a proposal
would cost more and more. It sorts them into a good group of at most 25 and the rest, in which all but the
latest 25 weigh the less the older they are (``default_gamma`` and ``default_weights`` of Optuna 5). The best
and the latest therefore decide nearly everything. Up to ``MOST`` trials nothing is left out.
"""

import math
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from advisor.tuners.knob import Value

if TYPE_CHECKING:
    import optuna

MOST = 300  # trials that are looked at; with one more it is cut down to those below
BEST = 50  # twice Optuna's good group
LATEST = 100
DRAWS = 500  # made from one study in memory before it is made anew without them

Params = dict[str, Value]


class Learnt:
    """The trials that a sampler is shown, in a study of Optuna's in memory.

    What is proposed follows from what was told, in its order, and from the sampler alone: not from when this
    object was made, nor from what was proposed before.

    Args:
        distributions: Those of every trial.
    """

    def __init__(self, distributions: "Mapping[str, optuna.distributions.BaseDistribution]") -> None:
        self._distributions = dict(distributions)
        self._told: list[tuple[Params, float]] = []
        self._study: optuna.Study | None = None
        self._shown = self._drawn = 0

    def tell(self, params: Mapping[str, Value], score: float) -> None:
        """Note the score of a trial; one that is not finite stands for a trial that was pruned."""
        self._told.append((dict(params), score))
        if len(self._told) > MOST:
            places = range(len(self._told))
            best = sorted(places, key=lambda place: -_rank(self._told[place][1]))[:BEST]
            self._told = [self._told[place] for place in sorted({*best, *places[-LATEST:]})]
            self._study = None

    def proposals(
        self, first: "optuna.samplers.BaseSampler", then: "optuna.samplers.BaseSampler"
    ) -> Generator[Params, None, None]:
        """What the sampler ``first`` proposes once, and after that what ``then`` proposes, again and again.

        Those that were taken before count as running, so that the next one keeps away from them.
        """
        from optuna.trial import TrialState

        from advisor.tuners.known_space import knowing

        study, sampler = self._shown_study(), first
        asked: list[optuna.trial.Trial] = []
        try:
            while True:
                study.sampler = knowing(sampler, self._distributions)
                asked.append(study.ask(self._distributions))
                yield dict(asked[-1].params)
                sampler = then
        finally:
            self._drawn += len(asked)
            for trial in asked:
                study.tell(trial, state=TrialState.FAIL)

    def _shown_study(self) -> "optuna.Study":
        import optuna

        if self._study is None or self._drawn > DRAWS:
            self._study, self._shown, self._drawn = optuna.create_study(direction="maximize"), 0, 0
        for params, score in self._told[self._shown :]:
            finite = math.isfinite(score)
            state = optuna.trial.TrialState.COMPLETE if finite else optuna.trial.TrialState.PRUNED
            value = score if finite else None
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=state, params=params, distributions=self._distributions, value=value
                )
            )
        self._shown = len(self._told)
        return self._study


def _rank(score: float) -> float:
    return score if math.isfinite(score) else -math.inf
