"""What earlier parts of a resumed study found, given out as the search comes to it again.

A resumed search takes the steps of the one before it from the beginning, without measuring. So it comes to
where that one was cut off in the same state, and what it proposes next is what that one would have.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from advisor.tuners.failures import Cause


@dataclass
class Earlier:
    """Trials of earlier parts.

    Attributes:
        scores: What Optuna was told of each configuration, by key, in the order measured: log ratio to the
            baseline, with what a sample is worth under it.
        failures: Configurations that failed by themselves, by key; they are not run again.
        interrupted: How many trials ended with their tuner. They count nowhere.
    """

    scores: Mapping[str, Sequence[float]] = field(default_factory=dict)
    failures: Mapping[str, Cause] = field(default_factory=dict)
    interrupted: int = 0
    _given: Counter[str] = field(default_factory=Counter)

    def score(self, key: str) -> float | None:
        """The next score of a configuration; ``None`` when each was given out."""
        scores = self.scores.get(key, ())
        if self._given[key] == len(scores):
            return None
        self._given[key] += 1
        return scores[self._given[key] - 1]

    def rest(self) -> dict[str, float]:
        """The last score of each configuration that the search has not come to."""
        return {key: scores[-1] for key, scores in self.scores.items() if scores and not self._given[key]}
