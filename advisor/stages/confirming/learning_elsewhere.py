"""First steps of fresh processes, compared on one other node beside what is measured meanwhile.

What the numbers of a candidate are held against does not depend on it, so it runs while the search goes on.
All runs are of one node: only there are the last bits of two of them comparable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from advisor.base.unit import Unit
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.numerics import NodeLost, learning_steps
from advisor.stages.confirming.pair_numerics import told_by_pairs
from advisor.tuners.benches.crew import Begun, Task
from advisor.tuners.benches.messages import Answer, LearningRun, Learnt, RunLearning
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.same_process import switchable
from advisor.tuners.knob import Value
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import TrialFailed

MANY = 5  # benches, of which one is not missed while values are looked at one by one
AT_ONCE = 2  # runs of one question, whose processes may start together
Run = tuple[Configuration, int, int, int]  # configuration, offset of the seed, nudge; which copy of the same
Learnings = tuple[gate.Learning, ...] | None


@dataclass
class LearningElsewhere:
    """Has one other bench run first steps whenever nothing else is to be done there.

    Attributes:
        bench: This process's.
        space: Knows the program as it is, and what a configuration without others is.
    """

    bench: MeasuredBench
    space: Space
    _node: str | None = None
    _begun: dict[Run, Begun[Learnings]] = field(default_factory=dict)
    _known: dict[Run, gate.Learning] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        """Whether a node is left for it: the one that was begun on, or any."""
        others = self.bench.crew.nodes[1:]
        return bool(others) if self._node is None else self._node in others

    def expects(self, config: Mapping[str, Value]) -> bool:
        """Whether the numbers of a candidate take fresh processes of their own, and a node is there."""
        if not self.there or self.bench.settings.unit is not Unit.STEP:
            return False
        base = self.space.present
        alone = switchable(self.bench.arena.knobs, base, config)
        return not alone and told_by_pairs(self.bench, base, config) is None

    def prepare(self, config: Configuration) -> None:
        """Begin with what such a candidate will be held against."""
        if self.expects(config):
            self._begin(self._reference)

    def prepare_early(self) -> None:
        """The same before anything is found, where benches are many and changes of the space may need it."""
        present = self.space.present
        others = {
            name: next((value for value in values if value != present[name]), present[name])
            for name, values in self.space.choices.items()
        }
        if self.bench.crew.size >= MANY:
            self.prepare(self.space.complete(others))

    def begin(self, nominee: Configuration) -> None:
        """Begin with a nominee too, and with each of its changes alone."""
        if not self.expects(nominee):
            self.drop()
            return
        changed = nominee.changed(self.space.present)
        alone = [self.space.complete({name: nominee[name]}) for name in changed] if len(changed) > 1 else []
        runs: list[Run] = [*self._reference, *((config, 0, 0, 0) for config in [nominee, *alone])]
        self._drop_all_but(runs)
        self._begin(runs)

    def reference(self) -> gate.Reference:
        """Runs of the program as it is, beside which candidates are held.

        Raises:
            TrialFailed: One failed.
            NodeLost: They, and all others, have to be made somewhere else.
        """
        return gate.reference_of([self._learnt(run) for run in self._reference])

    def learn(self, config: Mapping[str, Value], nudge: int = 0) -> gate.Learning:
        """The first steps of a configuration. Raises as ``reference``."""
        return self._learnt((Configuration(config), 0, nudge, 0))

    def drop(self) -> None:
        """Want nothing more."""
        self._drop_all_but([])

    def _drop_all_but(self, runs: Sequence[Run]) -> None:
        """Want no more of what no such run is part of."""
        wanted = [self._begun[run] for run in runs if run in self._begun]
        for run, begun in list(self._begun.items()):
            if not any(begun is each for each in wanted):
                self.bench.crew.drop(begun)
                del self._begun[run]

    @property
    def _reference(self) -> list[Run]:
        base, offsets = self.space.present, gate.REFERENCE
        return [(base, offset, 0, offsets[:place].count(offset)) for place, offset in enumerate(offsets)]

    def _begin(self, runs: Sequence[Run]) -> None:
        new = [run for run in dict.fromkeys(runs) if run not in self._begun and run not in self._known]
        crew, steps = self.bench.crew, learning_steps(self.bench)
        for first in range(0, len(new) if self.there else 0, AT_ONCE):
            self._node = self._node or crew.nodes[-1]
            few = new[first : first + AT_ONCE]
            asked = tuple(LearningRun(dict(config), offset, nudge) for config, offset, nudge, _ in few)

            def ask(key: int, asked: tuple[LearningRun, ...] = asked) -> RunLearning:
                return RunLearning(key, steps, asked)

            begun = crew.begin([Task(lambda: None, ask, _learnings)], self._node)
            self._begun.update(dict.fromkeys(few, begun))

    def _learnt(self, run: Run) -> gate.Learning:
        self._begin([run])
        if run in self._known:
            return self._known[run]
        if run not in self._begun:
            raise NodeLost
        begun = self._begun[run]
        together = [each for each, other in self._begun.items() if other is begun]
        (came,) = self.bench.crew.finish(begun)
        for each in together:
            del self._begun[each]
        if came.failure is not None:
            raise TrialFailed(came.failure)
        if came.value is None:
            raise NodeLost
        self._known.update(zip(together, came.value, strict=True))
        return self._known[run]


def _learnings(answer: Answer) -> Learnings:
    if not isinstance(answer, Learnt):
        raise AssertionError("runs are answered by what they learnt")
    return answer.learnings
