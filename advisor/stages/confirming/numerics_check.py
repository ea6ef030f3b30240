"""Which changes of a nominee leave its numbers as they should be: together, and one by one if need be."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from advisor.stages.confirming.numerics import Numerics, NumericsGate
from advisor.tuners.comparing import gate
from advisor.tuners.knob import Semantics
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

SINGLES_SHARE = 0.3  # of the budget that must be left, for the numbers of each change to be compared alone


@dataclass
class NumericsCheck:
    """Runs the first steps under a nominee and parts of it, beside the baseline."""

    against: NumericsGate
    space: Space
    _alone: set[str] = field(default_factory=set)  # changes that were judged by themselves

    def run(self, winner: Configuration) -> Numerics:
        """Judge a nominee, and leave out what drifts."""
        bench, clock = self.against.bench, self.against.bench.clock
        found, began = Numerics(winner), clock()
        whole, drift = self._together(winner, found)
        changed, one_s = winner.changed(self.space.present), clock() - began
        kept_s = SINGLES_SHARE * bench.settings.budget_s
        affordable = clock() + len(changed) * one_s < bench.deadline - kept_s
        if whole.verdict == "identical" and len(changed) > 1:  # so none of them changes anything
            found.verdicts.update(dict.fromkeys(changed, whole))
        elif drift is not None or (len(changed) > 1 and affordable):
            self._each_alone(winner, found)
        if drift is not None and found.config == winner:  # none of them alone
            self._take_out(found, changed if whole is drift else self._comparable(winner), drift)
        if found.config != winner and found.config.changed(self.space.present):
            reduced = found.config
            whole, drift = self._together(reduced, found)
            if drift is not None:
                left = reduced.changed(self.space.present)
                self._take_out(found, left if whole is drift else self._comparable(reduced), drift)
        if drift is None and not found.config.changed(self.space.present):
            found.reason = next(reversed(found.rejected.values()), "")
        else:
            found.reason = whole.reason if drift is None else drift.reason
        found.verdicts[""] = whole
        return found

    def _together(self, config: Configuration, found: Numerics) -> tuple[gate.Verdict, gate.Verdict | None]:
        """On the whole, and the verdict that says that it drifts, if any.

        Beside a change of what is learnt nothing can be compared step by step: what else is changed is
        judged without it.
        """
        whole, peak = self._judge(config, found)
        found.peaks = (peak,)
        comparable, changed = self._comparable(config), config.changed(self.space.present)
        if whole.verdict == "drifts" or not comparable or len(comparable) == len(changed):
            return whole, whole if whole.verdict == "drifts" else None
        rest = self.space.complete({name: config[name] for name in comparable})
        if not rest.changed(self.space.present):  # it has no effect without the others
            return whole, None
        beside, _ = self._judge(rest, found)
        found.verdicts.update({name: beside for name in comparable if name not in self._alone})
        return whole, beside if beside.verdict == "drifts" else None

    def _each_alone(self, winner: Configuration, found: Numerics) -> None:
        for name in winner.changed(self.space.present):
            single = self.space.complete({name: winner[name]})
            if not single.changed(self.space.present):  # as a learning rate without a batch
                continue
            verdict, _ = self._judge(single, found)
            found.verdicts[name] = verdict
            self._alone.add(name)
            if verdict.verdict == "drifts":
                self._take_out(found, [name], verdict)

    def _take_out(self, found: Numerics, names: Iterable[str], drift: gate.Verdict) -> None:
        found.rejected.update(dict.fromkeys(names, drift.reason))
        for name in names:
            found.config = self.space.without(found.config, name)

    def _judge(self, config: Configuration, found: Numerics) -> tuple[gate.Verdict, int]:
        """The verdict on one configuration, and its peak of memory in bytes."""
        learned = self.against.learn(config)
        learning = learned.learning
        if learning.compile_s:
            found.compile_s = max(found.compile_s or 0.0, learning.compile_s)
        changed = list(config.changed(self.space.present))
        return self.against.judge(learned, changed, config), learning.peak_bytes

    def _comparable(self, config: Configuration) -> list[str]:
        """Changes that leave what is learnt as it is."""
        return [
            name
            for name in config.changed(self.space.present)
            if self.against.bench.arena.knobs[name].meaning(config) is not Semantics.TRAINING
        ]
