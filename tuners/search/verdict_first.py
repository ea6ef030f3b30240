"""Whether what a search has found is confirmed before it goes on: what is left may take longer."""

import math
from collections.abc import Iterator, Mapping, Sequence

from advisor.tuners.benches.crew import FEW
from advisor.tuners.knob import Value
from advisor.tuners.search.measuring import NEARLY_LARGE
from advisor.tuners.search.race import WORTH
from advisor.tuners.search.waves import FRUITLESS, InWaves
from advisor.tuners.space.configuration import Configuration

SHORT = 0.25  # of a start, that a look takes which goes before a verdict
MORE_VERDICTS = 3  # that fit into what is left: one at once, as much to find more, and one of that
CLEAR = math.log(1.08)  # of a look in one process, that the noise between looks hardly makes
CLEAR_ON_NODES = math.log(1.12)  # the same where nodes differ, by which one may be the best of many
PROMPT = 0.3  # of the seconds of a verdict, in which a look at what promises a gain goes before it
SOON = 0.05  # log ratio of what several benches confirm at once: they measure it while the last look is taken


class VerdictFirst(InWaves):
    """Weighs a verdict against what is left to be tried."""

    def _is_confirmed_first(self, config: Configuration, score: float) -> bool:
        """Whether a configuration with that score is confirmed before the search goes on.

        Where the rest of the search takes less than what a confirmation does at least, that comes first.
        """
        enough = NEARLY_LARGE if self.crew.size <= FEW else SOON
        if score - self.stands < enough or not math.isfinite(self.verdict_s(config, score)):
            return False
        rest_s, longest_s = self._rest_s(config, {name: [] for name in self.space.choices})
        return max(longest_s, rest_s / self.crew.size) > self.startup_s

    def _is_worth_a_verdict(self, left: Mapping[str, Sequence[Value]]) -> bool:
        """Whether a large gain is confirmed first, since the rest takes longer than that.

        The search of what is not confirmed ends early, so that confirming fits. That does not count where
        there is time for another verdict after this one and for as much in between, unless something speaks
        for what is left.

        Args:
            left: Knobs that were not looked at, some with the values that are left.
        """
        rest_s, _ = self._rest_s(self.incumbent, left)
        verdict_s, now = self.verdict_s(self.incumbent, self.score), self.clock()
        more_fit = max(self.deadline, self.latest) - now >= MORE_VERDICTS * verdict_s
        if not more_fit or any(self._is_spoken_for(name, had) for name, had in left.items()):
            rest_s = min(rest_s, self._until - now)
        return rest_s > verdict_s

    def _is_found(self) -> bool:
        """Whether a clear gain by single knobs is confirmed before joint proposals, which take longer."""
        is_all = len(self.space.choices) < 2 or self.space.size <= len(self._seen)
        if is_all or self.score - self.stands < (CLEAR if self.crew.size == 1 else CLEAR_ON_NODES):
            return False
        configs = [
            self.space.complete(self.incumbent.with_({name: value}))
            for name in self.space.choices for value in self._values(name, self.incumbent)
        ]  # fmt: skip
        seconds = (self._expectations.seconds(self.incumbent, config) for config in configs)
        rest_s = min(FRUITLESS * max(seconds, default=0.0), self._until - self.clock())
        return rest_s > self.verdict_s(self.incumbent, self.score)

    def _is_prompt(self, name: str, left: Sequence[Value]) -> bool:
        """Whether a look, and what a verdict takes more then, are a small part of it; ``left`` of a knob."""
        values = self._values_left(name, left)
        verdict_s = self.verdict_s(self.incumbent, self.score)
        limit_s = PROMPT * verdict_s
        if values:
            config = self._expectations.beside(self.incumbent, {name: values[0]})
            limit_s -= max(0.0, self.verdict_s(config, self.score) - verdict_s)
        return self._expectations.is_prompt(name, values, self.incumbent, limit_s, self._waits_now)

    def _is_spoken_for(self, name: str, left: Sequence[Value]) -> bool:
        """Whether the profile or a finding promises of a knob what could be confirmed; ``left`` of it."""
        values = self._values_left(name, left)
        return self._expectations.is_prompt(name, values, self.incumbent, math.inf, self._waits_now)

    def _rest_s(self, start: Configuration, left: Mapping[str, Sequence[Value]]) -> tuple[float, float]:
        """Seconds of the looks at what is left and of joint proposals after them, and of the longest.

        Args:
            start: What they are looked at beside.
            left: Knobs, some with the values that are left.
        """
        looks = [
            self._expectations.seconds(start, self.space.complete(start.with_({name: of})))
            for name, had in left.items() for of in self._values(name, start)
            if (of in had or not had) and self._is_new(self.space.complete(start.with_({name: of})))
        ]  # fmt: skip
        longest_s = max(looks, default=0.0)
        return sum(looks) + FRUITLESS * longest_s, longest_s

    def _is_promising(self, name: str) -> bool:
        """Whether something of a knob is expected to gain more than what counts as nothing."""
        values = self._values(name, self.incumbent, hopeful=True)
        return any(self._expectations.gain(name, value) > WORTH for value in values)

    def _is_short(self, name: str) -> bool:
        """Whether each look at a knob takes but a part of the start of a process."""
        start = self.incumbent
        configs = [self.space.complete(start.with_({name: value})) for value in self._values(name, start)]
        seconds = (self._expectations.seconds(start, config) for config in configs)
        return all(each <= SHORT * self.startup_s for each in seconds)

    def _values_left(self, name: str, left: Sequence[Value]) -> list[Value]:
        """Values of a knob that may be looked at; of ``left`` alone where it is not empty."""
        return [each for each in self._values(name, self.incumbent) if each in left or not left]

    def _values(self, name: str, start: Configuration, *, hopeful: bool | None = None) -> Iterator[Value]:
        """Values other than the start's that are not ruled out.

        Args:
            name: Of the knob.
            start: What they are raced against.
            hopeful: Those of which something is expected; or others, of which nothing or a loss is.
        """
        for value in self._expectations.ordered(name, start):
            if hopeful is not None:
                nothing = self._expectations.gain(name, value) <= 0
                if hopeful == nothing or (nothing and value == self.space.present[name]):
                    continue
            if not self._is_ruled_out(start.with_({name: value}), start):
                yield value
