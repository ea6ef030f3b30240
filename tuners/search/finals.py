"""The end of a search: those near the best meet it once more."""

from collections.abc import Sequence

from advisor.tuners.search.at_once import AtOnce
from advisor.tuners.search.doubt import doubt, together
from advisor.tuners.search.race import WORTH
from advisor.tuners.space.configuration import Configuration

FINALISTS = 4


class Finals(AtOnce):
    """Has those near the best meet it on fresh data, one after the other or at once."""

    def _race_the_best(self) -> None:
        """The best of many noisy scores owes part of it to luck: those near it meet it on fresh data."""
        if self.incumbent == self.space.present:
            return
        near = sorted(
            (config for config in self._nominees if self.score - self._doubt(config) < self._seen[config]),
            key=lambda config: (self._seen[config], config.key),
        )
        finalists = near[::-1][:FINALISTS]
        self.likely(self.incumbent, self.score)
        if self.crew.size > 1:
            self._meet_at_once([config for config in finalists if config != self.incumbent])
            return
        for config in finalists:
            if config != self.incumbent:
                self._meet(config)

    def _meet(self, config: Configuration) -> None:
        """Race a configuration against the incumbent once more; by both looks together it takes its place."""
        before = self._before_meeting(config)
        score = self._measure(config, "search", again=True)
        if score is None:
            return
        gain = together(before, (score - self.score, self._pairs.get(config, 0)))
        self._seen[config] = self.score + gain
        if gain > WORTH:
            self._adopt(self.score + gain, config)

    def _meet_at_once(self, configs: Sequence[Configuration]) -> None:
        """The same of several against one incumbent, whose place the best of them takes."""
        before, start = {config: self._before_meeting(config) for config in configs}, self.incumbent
        scores: dict[Configuration, float | None] = {}
        base = self.score
        best: tuple[float, Configuration] | None = None
        try:
            self._measure_all(configs, "search", scores, again=True)
        finally:  # the budget may end in between; who met counts
            for config, score in scores.items():
                if score is None or self.incumbent != start:
                    continue
                gain = together(before[config], (score - base, self._pairs.get(config, 0)))
                self._seen[config] = base + gain
                if gain > WORTH and (best is None or base + gain > best[0]):
                    best = base + gain, config
            if best is not None:
                self._adopt(*best)

    def _before_meeting(self, config: Configuration) -> tuple[float, int]:
        """Its gain over the incumbent by what is known, and of how many pairs."""
        return self._seen[config] - self.score, self._pairs.get(config, 0)

    def _doubt(self, config: Configuration) -> float:
        return doubt(self._pairs.get(config, 0))
