"""Several configurations are raced at once; what gained is put together, or comes in one by one."""

from collections.abc import Callable, Sequence
from functools import partial

from advisor.tuners.search.asking import Proposal
from advisor.tuners.search.curve import Curve
from advisor.tuners.search.ordering import INTERACTING, serves_data
from advisor.tuners.search.race import WORTH
from advisor.tuners.search.record import Stage
from advisor.tuners.search.verdict_first import VerdictFirst
from advisor.tuners.search.waves import FRUITLESS
from advisor.tuners.space.configuration import Configuration


class AtOnce(VerdictFirst):
    """Races on all benches, and has those that are idle begin with what is asked next."""

    def _try_all(
        self,
        configs: Sequence[Configuration],
        stage: Stage = "search",
        proposals: Sequence[Proposal] = (),
        told: Callable[[dict[Configuration, float | None]], None] = lambda scores: None,
    ) -> bool:
        """Race configurations at once; whether any took the incumbent's place, alone or put together.

        Args:
            configs: What is tried.
            stage: For the records.
            proposals: Of Optuna's sampler, for each configuration, where it proposed them.
            told: Is told the scores before anything takes the incumbent's place.
        """
        start, score = self.incumbent, self.score
        scores: dict[Configuration, float | None] = {}
        better: list[tuple[float, Configuration]] = []
        try:
            self._measure_all(configs, stage, scores, proposals)
        finally:  # the budget may end in between; what was found before counts
            told(scores)
            found = [(gain, each) for each, gain in scores.items() if gain is not None]
            gained = [each for each in found if each[0] > score + self._gain_needed(each[1])]
            better = sorted(gained, key=lambda each: -each[0])
            if better and self.incumbent == start:
                self._adopt(*better[0])
        if len(better) > 1 and self.incumbent == better[0][1]:
            self._put_together(start, better[1:], score)
        return bool(better)

    def _put_together(
        self, start: Configuration, others: Sequence[tuple[float, Configuration]], base: float
    ) -> None:
        """Add to the incumbent what others changed of ``start``: all at once, else what still gains alone.

        What two of them set differently stays as the better one has it. ``base`` is the score of ``start``.
        """
        joint, hoped = self.incumbent, self.score
        beside: list[Configuration] = []
        for gained, other in others:
            mine = joint.changed(start)
            more = {name: value for name, value in other.changed(start).items() if name not in mine}
            if not more:
                continue
            candidate = self.space.complete(joint.with_(more))
            if self._may_be_tried(candidate):
                joint, hoped = candidate, hoped + gained - base
                beside.append(self.space.complete(self.incumbent.with_(more)))
        if joint == self.incumbent:
            return
        ahead: list[int] = []
        first = self._is_confirmed_first(joint, hoped)
        restarts = self.arena.settled(self.incumbent) != self.arena.settled(start)
        if restarts or self._is_apart(joint):  # beside a look of a moment others would only begin
            if first:
                self.likely(joint, hoped)
            else:
                ahead = self._ask_ahead(joint)
        alone, score = self.incumbent, self._measure(joint, "search")
        if self.incumbent != alone:  # part of it declined
            return
        if score is not None and score > self.score + self._gain_needed(joint):
            self._adopt(score, joint)
            return
        self.crew.forget(ahead)
        if first:
            self.likely(self.incumbent, self.score)
        if len(beside) > 1:
            self._try_all([each for each in beside if self._may_be_tried(each)])

    def _may_be_tried(self, config: Configuration) -> bool:
        """Whether nothing speaks against a configuration, and it was not seen yet."""
        allowed = self.space.check(config) is None and not self._is_ruled_out(config, self.incumbent)
        return allowed and config not in self._seen

    def _screen_at_once(self, names: Sequence[str], hopeful: bool | None = None) -> None:
        """Race values of several knobs in waves, in the order of what to expect, as their curves ask for.

        Args:
            names: Of the knobs.
            hopeful: As of ``_values``.
        """
        curves: dict[str, Curve] = {}
        left = set(names)
        while left:
            start = self.incumbent
            wave: dict[Configuration, tuple[str, Curve]] = {}
            for name in self._expectations.order(start, self._waits.get(start)):
                if name not in left:
                    continue
                if name not in curves:
                    curves[name] = Curve(list(self._values(name, start, hopeful=hopeful)))
                while len(wave) < self._wave:
                    if (value := curves[name].next()) is None:
                        left.discard(name)
                        break
                    config = self._expectations.beside(start, {name: value})
                    if not self._is_ruled_out(config, start):
                        wave[config] = name, curves[name]
                if len(wave) == self._wave:
                    break
            if wave:
                self._try_all(list(wave), "screen", told=partial(self._told, wave, self.score))

    def _told(
        self,
        wave: dict[Configuration, tuple[str, Curve]],
        score: float,
        scores: dict[Configuration, float | None],
    ) -> None:
        """Tell curves what came of their values."""
        best: dict[str, float] = {}
        for config, (name, curve) in wave.items():
            gained = scores.get(config)
            if gained is None:
                continue
            better = gained > best.get(name, score) + WORTH
            best[name] = max(gained, best.get(name, score))
            for_data = serves_data(self.arena.knobs[name])
            curve.told(config[name], better=better, waits=self._waits.get(config) if for_data else None)

    def _ask_ahead(self, joint: Configuration) -> list[int]:
        """Have idle benches begin with what is tried next if this takes the incumbent's place.

        Returns:
            What ``Crew.forget`` takes.
        """
        kept = [
            name for name in INTERACTING
            if name in self.space.choices and joint[name] == self.space.present[name]
        ]  # fmt: skip
        configs = [
            self.space.complete(joint.with_({name: value}))
            for name in kept for value in self._values(name, joint)
        ]  # fmt: skip
        self._proposals = self._proposed(FRUITLESS)
        configs += [each.config for each in self._proposals]
        asked = [
            self._asked_race(0, joint, config, 0 if self._is_apart(config, joint) else None)
            for config in configs
        ]
        return self.crew.ahead(asked)
