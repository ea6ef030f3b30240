"""Looks at several configurations at once, each on a bench of its own, all against one incumbent.

Results count by their place in the wave, never by who was done first.
"""

from collections.abc import Callable, Sequence
from functools import partial

from advisor.tuners.benches.crew import Came, Task
from advisor.tuners.benches.messages import RunRace
from advisor.tuners.comparing.ways import LIVE, SWITCHED
from advisor.tuners.search.asking import Proposal
from advisor.tuners.search.looked import both_looks, looked
from advisor.tuners.search.measuring import BudgetSpent, Looked, Measuring
from advisor.tuners.search.ordering import gain_without, serves_data
from advisor.tuners.search.race import is_unclear
from advisor.tuners.search.record import Stage, TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Failure, TrialFailed

FRUITLESS = 6  # joint proposals in a row that change nothing: converged
PER_BENCH = 2  # looks of a wave: of one each, all would wait for the longest
BESIDE_LOST = Failure("not_applied", "it was measured beside a setting that declined")


class InWaves(Measuring):
    """Measures as many configurations at once as there are benches."""

    @property
    def _wave(self) -> int:
        """Looks of a wave at most."""
        return PER_BENCH * self.crew.size

    def _measure(
        self,
        config: Configuration,
        stage: Stage,
        proposal: Proposal | None = None,
        *,
        again: bool = False,
        bar: float = 0.0,
    ) -> float | None:
        """As of ``Measuring``; two looks by processes that take turns are taken at once."""
        if self.crew.size == 1 or not self._is_apart(config):
            self.crew.begin([])  # others have time for what was asked ahead
            return super()._measure(config, stage, proposal, again=again, bar=bar)
        scores: dict[Configuration, float | None] = {}
        self._measure_all([config], stage, scores, [proposal] if proposal else (), again=again)
        return scores.get(config)

    def _measure_all(
        self,
        configs: Sequence[Configuration],
        stage: Stage,
        scores: dict[Configuration, float | None],
        proposals: Sequence[Proposal] = (),
        *,
        again: bool = False,
    ) -> None:
        """Measure configurations against one incumbent; what comes of each goes into ``scores``.

        Where a setting of the incumbent declines meanwhile, all that came after in the wave counts nothing.

        Raises:
            BudgetSpent: No further trial can be begun, after all that was begun is kept.
        """
        start, spent = self.incumbent, list[BudgetSpent]()
        begun: list[tuple[TrialRecord, int | None]] = []
        for place, config in enumerate(configs):
            proposal = proposals[place] if proposals else None
            try:
                known, score = self._answered(config, proposal, again=again)
            except BudgetSpent as by:
                spent.append(by)
                break
            if known:
                scores[config] = score
            else:
                begun.append(self._begun(config, stage, proposal))
        lost: dict[int, dict[str, str]] = {}
        came = self._looks([record for record, _ in begun], lost)
        for (record, asked), result in zip(begun, came, strict=True):
            try:
                scores[record.config] = self._counted(record, asked, result, lost, start)
            except BudgetSpent as by:
                spent.append(by)
        for config in scores if self.incumbent != start else ():
            scores[config] = None
        if spent:
            raise spent[0]

    def _counted(
        self,
        record: TrialRecord,
        asked: int | None,
        came: Came[Looked],
        lost: dict[int, dict[str, str]],
        start: Configuration,
    ) -> float | None:
        """Keep what came of one look; its score."""
        if (told := came.told) is not None:
            record.marks += told.marks
            record.log, lost[record.number] = told.log, dict(told.lost)
            self._timed_out(record.config, came.failure, told.seconds)
        if self.incumbent != start:
            record.slots.clear()
            record.state, record.cause, record.message = "failed", BESIDE_LOST.cause, BESIDE_LOST.message
            self.recorder.record(record, asked=asked)
            if asked is not None:
                self._asking.fail(asked)
            return None
        if came.failure is not None:
            self._failed_at(record, asked, came.failure, lost.get(record.number, {}))
            return None
        if came.value is None:
            raise AssertionError("a look that did not fail has a value")
        return self._took(record, asked, came.value)

    def _looks(self, records: Sequence[TrialRecord], lost: dict[int, dict[str, str]]) -> list[Came[Looked]]:
        """Look at the configurations of records.

        Where processes take turns, a second look is taken by any bench: at once where all find one, else
        where the first one asks for it.
        """
        apart = [self._is_apart(record.config) for record in records]
        tasks = [
            self._task(record, lost, 0 if turns else None)
            for record, turns in zip(records, apart, strict=True)
        ]
        both = [place for place, turns in enumerate(apart) if turns]
        at_once = len(records) + len(both) <= self.crew.size
        again = both if at_once else []

        def second(place: int, came: Came[Looked]) -> Task[Looked] | None:
            if at_once or place not in both or not self._is_unclear(records[place], came):
                return None
            again.append(place)
            return self._task(records[place], lost, 1)

        likely = [
            self._asked_race(records[place].number, self.incumbent, records[place].config, 1)
            for place in both if not at_once
        ]  # fmt: skip
        ahead = self.crew.ahead(likely, first=True)
        came = self.crew.run([*tasks, *(self._task(records[place], lost, 1) for place in again)], second)
        self.crew.forget(ahead)
        for place, more in zip(again, came[len(records) :], strict=True):
            came[place] = both_looks(came[place], more)
        return came[: len(records)]

    def _is_unclear(self, record: TrialRecord, came: Came[Looked]) -> bool:
        """Whether a first look asks for a second one, and there is time."""
        if came.value is None or record.refused or self.clock() > self._until:
            return False
        return is_unclear(came.value.log_ratios)

    def _is_apart(self, config: Configuration, incumbent: Configuration | None = None) -> bool:
        """Whether processes take turns in a race with the incumbent, and nodes are left for its looks.

        Of two nodes a race stays on one: what both made look better would be confirmed by the same two.
        """
        how = self.arena.how(incumbent or self.incumbent, config)
        return self.crew.size > 2 and how not in (LIVE, SWITCHED)

    def _task(
        self, record: TrialRecord, lost: dict[int, dict[str, str]], look: int | None = None
    ) -> Task[Looked]:
        """A look at the configuration of a record, on any bench; ``lost`` is told what declined here."""

        def here() -> Looked:
            try:
                return self._look(record, look=look)
            except TrialFailed:
                lost[record.number] = dict(self._race.lost)
                raise

        asked = self._asked_race(record.number, self.incumbent, record.config, look)
        return Task(here, asked, partial(looked, record))

    def _asked_race(
        self, number: int, incumbent: Configuration, config: Configuration, look: int | None
    ) -> Callable[[int], RunRace]:
        """What another bench is asked, by the key of its answer."""
        until = self._until

        def asked(key: int) -> RunRace:
            left_s = max(0.0, until - self.clock())
            return RunRace(key, number, dict(incumbent), dict(config), 0.0, left_s, look)

        return asked

    def _proposed(self, most_repeats: int) -> list[Proposal]:
        """Proposals for all benches, as long as there are new ones; first those that were made ahead."""
        found = [
            each for each in self._proposals if self._is_new(each.config) and self._is_allowed(each.config)
        ]
        self._proposals = []
        size = self.crew.size
        most = self._wave if size > 2 else size  # of few benches each proposal learns from those before
        while len(found) < min(most, most_repeats):
            taken = {each.config for each in found}
            new = lambda config, taken=taken: config not in taken and self._is_new(config)  # noqa: E731
            repeats = sum(each.repeats for each in found)
            proposal = self._asking.propose(new, self._is_allowed, most_repeats - repeats)
            if proposal is None:
                break
            found.append(proposal)
        return found

    def _is_new(self, config: Configuration) -> bool:
        return config not in self._seen

    def _is_allowed(self, config: Configuration) -> bool:
        if self._is_lost(config) or self._too_much.holds(config, self.incumbent):
            return False
        if any(
            config[name] != self.space.present[name] and self._serves_no_more(name)
            for name in config.changed(self.incumbent)
        ):
            return False
        return self.space.check(config) is None

    @property
    def _waits_now(self) -> float | None:
        """Share (0 to 1) of the incumbent's step that waits for data, where it was measured."""
        return self._waits.get(self.incumbent)

    def _serves_no_more(self, name: str) -> bool:
        """Whether all that a knob can do is to shorten a wait for data that the incumbent hardly has."""
        waits = self._waits_now
        return waits is not None and serves_data(self.arena.knobs[name]) and gain_without(waits) < self.least
