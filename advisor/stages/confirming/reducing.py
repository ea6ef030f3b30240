"""A nominee reduced to the changes that matter, before it is confirmed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.benches.crew import Task
from advisor.tuners.benches.messages import Answer, Removed, RunRemoval
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.comparing.ways import LIVE, SWITCHED
from advisor.tuners.search import ablate
from advisor.tuners.search.known_gains import KnownGains
from advisor.tuners.search.removal import Removal, fewest_looks, judged
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

NEEDLESS = "taking it out costs too little to count or to be told from noise"  # why a change goes
ENOUGH = math.log(1.05)  # that a change brings, however little the baseline could tell from noise


@dataclass(frozen=True)
class Reducing:
    """Takes changes out of a nominee that cannot be told from nothing.

    Attributes:
        bench: What is measured on.
        space: What may be tried.
        nominee: What the search would recommend.
        leading: Its changes, without those that only follow another one.
        gains: Of single changes and of several, that the search saw.
        number: Of the trial.
        deadline: By the clock, after which what is unmeasured is kept.
        worth: Log ratio of what a sample is worth under a configuration.
        speed: Ratio of the nominee over the program as it is, by the search.
    """

    bench: MeasuredBench
    space: Space
    nominee: Configuration
    leading: Sequence[str]
    gains: KnownGains
    number: int
    deadline: float
    worth: Callable[[Configuration], float]
    speed: float = 1.0

    @cached_property
    def known(self) -> Mapping[str, Estimate]:
        """Gains of its single changes that were seen clearly."""
        return self.gains.of(self.nominee)

    @cached_property
    def seen(self) -> Mapping[str, Estimate]:
        """Those that were seen at all: the weakest are taken out first."""
        return self.gains.seen(self.nominee)

    def reduced(self, outcome: Outcome) -> Configuration:
        """What is left; the outcome is told what each change brings, and why one was taken out."""
        bench, nominee = self.bench, self.nominee
        if len(self.leading) < 2 or bench.clock() > self.deadline:
            return nominee
        unknown = [name for name in self.leading if name not in self.known]
        if not unknown:
            outcome.contributions.update({name: self.known[name] for name in self.leading})
            return nominee
        bench.progress.say(f"taking {len(unknown)} change{'s' * (len(unknown) > 1)} out")
        if bench.arena.settled(self.space.present) != bench.arena.settled(nominee):
            bench.baseline.end()
        at_once = self._at_once(unknown) if self._is_for_all(unknown) else None
        winner, removals = at_once or self._in_turn(self.known)
        for removal in removals:
            outcome.contributions[removal.knob] = removal.contribution
            if not removal.needed:
                outcome.rejected[removal.knob] = NEEDLESS
        return winner

    def _in_turn(self, known: Mapping[str, Estimate]) -> tuple[Configuration, list[Removal]]:
        return ablate.removals(
            self.bench.arena,
            self.nominee,
            self.space,
            detectable=self._detectable,
            level=self.bench.settings.confidence,
            number=self.number,
            deadline=self.deadline,
            startup_s=self.bench.baseline.startup_s,
            speed=self.speed,
            say=self.bench.progress.say,
            worth=self.worth,
            known=known,
            seen=self.seen,
            joint=self.gains.joint(self.nominee),
            known_of=self.gains.of,
            running=self.bench.baseline.session,
            least=self._least,
        )

    def _at_once(self, names: Sequence[str]) -> tuple[Configuration, list[Removal]]:
        """Each change taken out of the whole nominee, on all benches; what costs nothing goes together.

        If together it costs, changes are taken out in turn.
        """
        base, nominee = self.space.present, self.nominee
        measured = [Removal(name, self.known[name], True) for name in self.leading if name in self.known]
        outs = self._outs(names)
        came = self.bench.crew.run([self._task(config) for config in outs.values()])
        for (name, config), each in zip(outs.items(), came, strict=True):
            if each.value is not None:  # what cannot be measured is kept
                measured.append(self._removal(name, config, *each.value))
        needless = [each.knob for each in measured if not each.needed]
        left = nominee
        for name in needless:
            left = self.space.without(left, name)
        if len(needless) > 1:
            (both,) = self.bench.crew.run([self._task(left)]) if left.changed(base) else [None]
            if both is None or both.value is None or self._removal("", left, *both.value).needed:
                return self._in_turn({each.knob: each.contribution for each in measured if each.needed})
        return left, measured

    def ask_ahead(self) -> list[int]:
        """Have idle benches begin with removals that are measured at once; as ``Crew.ahead``."""
        unknown = [name for name in self.leading if name not in self.known]
        if len(self.leading) < 2 or not self._is_for_all(unknown):
            return []
        asked = [self._task(config).asked for config in self._outs(unknown).values()]
        return self.bench.crew.ahead([each for each in asked if each is not None])

    def _is_for_all(self, unknown: Sequence[str]) -> bool:
        """Whether several benches measure removals: not those for which a process here is switched."""
        arena, several = self.bench.arena, self.bench.crew.size > 1 and len(unknown) > 1
        ways = [arena.how(config, self.nominee, fresh=True) for config in self._outs(unknown).values()]
        return several and any(how not in (LIVE, SWITCHED) for how in ways)

    def _outs(self, names: Sequence[str]) -> dict[str, Configuration]:
        """The nominee without each change, as far as anything is left of it."""
        outs = {name: self.space.without(self.nominee, name) for name in names}
        return {name: config for name, config in outs.items() if config.changed(self.space.present)}

    def _removal(self, name: str, reduced: Configuration, faster: Estimate, cut_off: bool) -> Removal:
        estimate = faster.shifted(self.worth(self.nominee) - self.worth(reduced))
        return judged(
            name, estimate, self._detectable, self.seen.get(name), cut_off=cut_off, least=self._least
        )

    def _task(self, reduced: Configuration) -> Task[tuple[Estimate, bool]]:
        bench, level = self.bench, self.bench.settings.confidence
        gone = [self.seen.get(name) for name in reduced.changed(self.nominee) if name in self.leading]
        fewest = max((fewest_looks(each, self._detectable) for each in gone), default=1)

        def here() -> tuple[Estimate, bool]:
            return ablate.contribution(
                bench.arena, reduced, self.nominee, fewest=fewest,
                detectable=self._detectable, level=level, number=self.number, deadline=self.deadline,
            )  # fmt: skip

        def asked(key: int) -> RunRemoval:
            left_s = max(0.0, self.deadline - bench.clock())
            configs = dict(reduced), dict(self.nominee)
            return RunRemoval(key, self.number, *configs, self._detectable, level, left_s, fewest)

        return Task(here, asked, _cut_or_not)

    @property
    def _least(self) -> float:
        """Log ratio that is worth an edit, where a removal tells it."""
        return math.log1p(self.bench.settings.min_gain)

    @property
    def _detectable(self) -> float:
        """Log ratio that a change has to bring: what noise leaves of it its own interval says."""
        return min(math.log1p(self.bench.baseline.detectable), ENOUGH)


def _cut_or_not(answer: Answer) -> tuple[Estimate, bool]:
    if not isinstance(answer, Removed):
        raise AssertionError("a removal is answered by its estimate")
    return answer.estimate, answer.cut_off
