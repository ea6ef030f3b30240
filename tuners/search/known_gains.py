"""Changes whose gain a search has seen alone, so clearly that nobody has to take them out again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.space.configuration import Configuration

CLEAR = 0.1  # log ratio that its lower bound exceeds: processes differ by up to that much


@dataclass
class KnownGains:
    """Single changes, with what they were compared with.

    Attributes:
        knobs: By name.
        present: The program's own settings.
    """

    knobs: Mapping[str, AnyKnob]
    present: Configuration
    _found: dict[tuple[str, Value], tuple[Configuration, Estimate]] = field(default_factory=dict)
    _joint: dict[frozenset[tuple[str, Value]], Estimate] = field(default_factory=dict)

    def note(self, incumbent: Configuration, config: Configuration, estimate: Estimate) -> None:
        """Remember what a configuration gave over the incumbent, if it differs from it in one change.

        One in which a change of the incumbent's is taken back tells what that gives: changes that came in
        together are seen so.
        """
        changed = config.changed(incumbent)
        leading = [name for name in changed if self.knobs[name].follows not in changed]
        if len(leading) > 1 and all(incumbent[name] == self.present[name] for name in leading):
            self._joint[frozenset((name, config[name]) for name in leading)] = estimate
        if len(leading) != 1:
            return
        name = leading[0]
        if config[name] != self.present[name]:
            self._found[name, config[name]] = incumbent, estimate
        else:
            self._found.setdefault((name, incumbent[name]), (config, _taken_back(estimate)))

    def seen(self, winner: Configuration) -> dict[str, Estimate]:
        """What each change of a winner gave where it was looked at alone, clear or not, by knob.

        Not of changes that gave clearly more together than that: what each brings then was not seen.
        """
        changed = [each for each in winner.changed(self.present).items() if each in self._found]
        alone = {name: self._found[name, value][1] for name, value in changed}
        for group, gave in self.joint(winner).items():
            members = alone.keys() & group
            if gave.estimate > CLEAR + sum(alone[name].estimate for name in members):
                alone = {name: each for name, each in alone.items() if name not in members}
        return alone

    def joint(self, winner: Configuration) -> dict[frozenset[str], Estimate]:
        """What changes of a winner that came in together gave then, by their knobs."""
        changed = winner.changed(self.present).items()
        found = [(group, gave) for group, gave in self._joint.items() if group <= changed]
        return {frozenset(name for name, _ in group): gave for group, gave in found}

    def of(self, winner: Configuration) -> dict[str, Estimate]:
        """Clear gains of changes of a winner, by knob, each over the program's own setting.

        One counts as long as all that differs between the winner and what it was measured beside acts on
        other parts of a step: what came later may do its work as well.
        """
        known: dict[str, Estimate] = {}
        for name, value in winner.changed(self.present).items():
            beside, estimate = self._found.get((name, value), (None, None))
            if beside is None or estimate is None:
                continue
            if beside[name] != self.present[name]:
                before = self._found.get((name, beside[name]))
                if before is None or before[0][name] != self.present[name]:
                    continue
                estimate = _chained(before[1], estimate)
            others = [
                each for each in winner
                if name not in (each, self.knobs[each].follows) and winner[each] != beside[each]
            ]  # fmt: skip
            if estimate.low > CLEAR and not any(self._interact(name, each) for each in others):
                known[name] = estimate
        return known

    def _interact(self, name: str, other: str) -> bool:
        """Whether both may shorten the same part of a step; unknown counts as yes."""
        first, second = self.knobs[name].acts_on, self.knobs[other].acts_on
        return not first or not second or bool(set(first) & set(second))


def _taken_back(estimate: Estimate) -> Estimate:
    """What the other one gave over this one."""
    return replace(estimate, estimate=-estimate.estimate, low=-estimate.high, high=-estimate.low)


def _chained(first: Estimate, second: Estimate) -> Estimate:
    """One gain on top of another: bounds add up."""
    return Estimate(
        first.estimate + second.estimate,
        first.low + second.low,
        first.high + second.high,
        second.level,
        first.quads + second.quads,
        min(first.instances, second.instances),
    )
