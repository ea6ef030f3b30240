"""In which order a search tries knobs, and which of them it tries once more beside others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from advisor.base.unit import Unit
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.search.costs import Costs
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space, largest_share

LEAST_GAIN = 0.01  # log ratio that any knob may bring, against all expectation
HOPE = 0.5  # of what is usual: it is what helps where something helps
LEAST_S = 0.5  # seconds of a trial, below which the order does not matter
MOST_SHARE = 0.95  # of the step, that anything may be expected to take away
DOUBTED = 0.25  # of the gain to expect, where another value of the knob was not confirmed
PROVEN = 0.2  # share, and log ratio, from which a cure that a finding and its knob agree on comes first
DEAR = 3.0  # times the seconds of a knob's cheapest value, from which another one gets a turn of its own
CHEAP_S = 2.0  # seconds of a look, up to which that counts for nothing
MUCH = 4  # times the present number: enough for what depends on it to show

INTERACTING = (
    "amp",
    "matmul_precision",
    "batch_size",
    "optimizer_implementation",
    "channels_last",
    "execution",
    "compile_region",
    "dynamic",
    "sparse_embedding",
    "num_threads",
)

PAIRS = (
    ("batch_size", "amp"), ("batch_size", "num_workers"), ("amp", "channels_last"), ("execution", "amp"),
    ("runtime", "quantization"), ("num_workers", "num_threads"),
)  # fmt: skip
# whose gain may need both (measurement.md, section 5)


@dataclass(frozen=True)
class Expectations:
    """What to expect of each knob of a space, and at what cost.

    Attributes:
        space: What is tried.
        knobs: All, by name.
        costs: Of trials, in seconds of this program.
        priorities: Share of the step (0 to 1) that a knob could take away, by the findings that name it.
        least: Log ratio of a gain that could hardly be confirmed.
        doubted: Knobs of which a value was not confirmed: others of theirs are as doubtful.
    """

    space: Space
    knobs: Mapping[str, AnyKnob]
    costs: Costs
    priorities: Mapping[str, float]
    least: float = LEAST_GAIN
    doubted: frozenset[str] = frozenset()

    def order(
        self,
        incumbent: Configuration,
        waits: float | None = None,
        left: Mapping[str, Sequence[Value]] = MappingProxyType({}),
    ) -> list[str]:
        """Knobs by the gain to expect over the seconds that their first look takes.

        Those whose gain a finding proves and the knob itself expects stand before the others. Less than could
        be confirmed counts as a share of the least that any knob may bring; those that only lose come last.

        Args:
            incumbent: What they are tried beside.
            waits: Share (0 to 1) of its step that waits for data, where that was measured: what only
                shortens that wait cannot give more.
            left: Values of knobs that had a turn, which are left for another one.
        """

        def rank(name: str) -> tuple[bool, float, float, str]:
            values = left.get(name) or self.ordered(name, incumbent)
            gain = max((self.gain(name, value) for value in values), default=0.0)
            share = self._share(name)
            if self.knobs[name].follows and self._is_idle(name, values, incumbent):
                gain = 0.0
            if name in self.doubted:
                gain *= DOUBTED
            gain = self._left(name, gain, waits)
            if waits is not None and serves_data(self.knobs[name]):
                share = min(share, waits)
            proven = self.proven(name, incumbent, waits)
            cheap = self.cheap(name, values, incumbent)
            seconds = max(LEAST_S, self._seconds(name, cheap, incumbent))
            if 0 <= gain < self.least:
                gain = LEAST_GAIN * max(gain, LEAST_GAIN) / self.least
            return not proven, -gain / seconds, -share, name

        return sorted(self.space.choices, key=rank)

    def ordered(self, name: str, incumbent: Configuration) -> list[Value]:
        """Values of a knob other than the incumbent's, in its own order.

        Those that promise nothing come later, those that promise a loss last.
        """
        values = [value for value in self.space.choices[name] if value != incumbent[name]]
        gains = {value: self.gain(name, value) for value in values}
        return sorted(values, key=lambda value: (gains[value] < 0, gains[value] <= 0))

    def cheap(self, name: str, values: Sequence[Value], incumbent: Configuration) -> list[Value]:
        """Values whose look takes not much longer than that of the cheapest; all where they are numbers."""
        if any(isinstance(value, int) for value in values):
            return list(values)  # they follow a curve
        seconds = {value: self._seconds(name, [value], incumbent) for value in values}
        limit_s = DEAR * max(CHEAP_S, min(seconds.values(), default=0.0))
        return [value for value in values if seconds[value] <= limit_s]

    def gain(self, name: str, value: Value) -> float:
        """Log ratio to expect: by the profile and what findings say, else what is usual.

        It is no more than the share of the step that the knob can act on, by which a finding is measured.
        """
        share = self._share(name)
        own = self.knobs[name].expected(self.space.profile, value)
        if own is not None:
            if own <= 1:
                return math.log(own)
            return min(max(math.log(own), gain_without(self.priorities.get(name, 0.0))), gain_without(share))
        return gain_without(
            max(self.priorities.get(name, 0.0), min(HOPE * self.knobs[name].usual_gain, share))
        )

    def seconds(self, incumbent: Configuration, config: Configuration) -> float:
        """Of a trial: what its knobs promise shortens what it takes itself."""
        changed = config.changed(self.space.present).items()
        speeds = [self.knobs[name].expected(self.space.profile, value) or 1.0 for name, value in changed]
        return self.costs.trial_s(incumbent, config, max(1.0, math.prod(speeds)))

    def proven(self, name: str, incumbent: Configuration, waits: float | None = None) -> bool:
        """Whether a finding proves that a knob gains, which it expects itself; args as of ``order``."""
        if waits is not None and serves_data(self.knobs[name]) and waits < PROVEN:
            return False
        found, profile = self.priorities.get(name, 0.0), self.space.profile
        own = [self.knobs[name].expected(profile, value) for value in self.ordered(name, incumbent)]
        return found >= PROVEN and any(ratio is not None and math.log(ratio) >= PROVEN for ratio in own)

    def is_prompt(
        self,
        name: str,
        values: Sequence[Value],
        incumbent: Configuration,
        limit_s: float,
        waits: float | None = None,
    ) -> bool:
        """Whether a look at the first value takes so long at most, and promises what could be confirmed.

        What is only usual promises nothing: the profile or a finding has to speak for it. ``waits`` is as of
        ``order``.
        """
        if not values or self._left(name, self.gain(name, values[0]), waits) < self.least:
            return False
        if not self.priorities.get(name) and self.knobs[name].expected(self.space.profile, values[0]) is None:
            return False
        return self._seconds(name, values, incumbent) <= limit_s

    def most(self, incumbent: Configuration, config: Configuration) -> float:
        """Log ratio that one configuration can gain over another: by the parts of the step that it changes.

        Infinite where nothing bounds it.
        """
        shares = [self._share(name) for name in config.changed(incumbent)]
        return gain_without(sum(shares)) if shares and all(share < 1 for share in shares) else math.inf

    def beside(self, start: Configuration, change: Mapping[str, Value]) -> Configuration:
        """A configuration with a change, in the one form in which it is tried.

        Where it excludes another form of a model that answers, without that one of its own changes which
        does: both are raced, as they cannot stand together. What excludes each other otherwise, by the CPUs
        that it needs, was weighed by what came in first.
        """
        space = self.space
        config = space.complete(start.with_(change))
        forms = all(Unit.STEP not in self.knobs[name].units for name in change)
        if not forms or space.check(config) is None:
            return config
        for name in sorted(start.changed(space.present).keys() - change.keys()):
            other = space.complete(space.without(config, name))
            if all(other[each] == value for each, value in change.items()) and space.check(other) is None:
                return other
        return config

    def _left(self, name: str, gain: float, waits: float | None) -> float:
        """Of a knob's gain, what there is where the incumbent waits for data so much of its step."""
        return gain if waits is None or not serves_data(self.knobs[name]) else min(gain, gain_without(waits))

    def _is_idle(self, name: str, values: Sequence[Value], incumbent: Configuration) -> bool:
        """Whether a knob does nothing until what it follows is there."""
        complete = self.space.complete
        return all(complete(incumbent.with_({name: value})) == complete(incumbent) for value in values)

    def _share(self, name: str) -> float:
        bound = largest_share(self.knobs[name], self.space.profile)
        return 1.0 if bound is None else bound[0]

    def _seconds(self, name: str, values: Sequence[Value], incumbent: Configuration) -> float:
        if not values:
            return LEAST_S
        return self.seconds(incumbent, self.beside(incumbent, {name: values[0]}))


def serves_data(knob: AnyKnob) -> bool:
    """Whether all that it can do is to shorten the wait for data."""
    return knob.acts_on == ("input_wait",)


def gain_without(share: float) -> float:
    """Log ratio where this share of the step goes."""
    return -math.log(1 - min(share, MOST_SHARE))


def telling(values: Sequence[Value], present: Value) -> Value:
    """The one of a knob's values, the preferred first, that shows most beside another change.

    Of numbers that is the one nearest to ``MUCH`` times the present one.
    """
    numbers = [value for value in values if isinstance(value, int) and value > 0]
    if not numbers or not isinstance(present, int) or present <= 0:
        return values[0]
    return min(numbers, key=lambda value: abs(math.log(value / (MUCH * present))))
