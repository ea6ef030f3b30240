"""In which order a search tries knobs, and which of them it tries once more beside others."""

import math
from collections.abc import Iterable, Mapping, Sequence

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.space.space import largest_share

LOADING_PRICE, RESTART_PRICE = 3.0, 8.0  # of a trial, in trials of a live knob: windows, starts
COMPILING_PRICE = 20.0  # the same where the first trial compiles, for tens of seconds
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
)  # fmt: skip
# whose gain may need both (measurement.md, section 5)


def by_expected_gain(
    names: Iterable[str], knobs: Mapping[str, AnyKnob], profile: Profile, priorities: Mapping[str, float]
) -> list[str]:
    """By the gain to expect over what a trial costs.

    Expected is the ceiling of a finding that names the knob, or what the knob usually gives; no more than
    the share of the step that it can act on.

    Args:
        names: Knobs to try.
        knobs: All, by name.
        profile: Of the baseline.
        priorities: Share of the step (0 to 1) that a knob could take away, by the findings that name it.
    """

    def rank(name: str) -> tuple[float, float, str]:
        knob = knobs[name]
        bound = largest_share(knob, profile)
        share = 1.0 if bound is None else bound[0]
        gain = max(priorities.get(name, 0.0), min(knob.usual_gain, share))
        restart = COMPILING_PRICE if knob.compiles else RESTART_PRICE
        price = 1.0 if knob.live else LOADING_PRICE if knob.loading else restart
        return -gain / price, -share, name

    return sorted(names, key=rank)


def telling(values: Sequence[Value], present: Value) -> Value:
    """The one of a knob's values, the preferred first, that shows most beside another change.

    Of numbers that is the one nearest to ``MUCH`` times the present one.
    """
    numbers = [value for value in values if isinstance(value, int) and value > 0]
    if not numbers or not isinstance(present, int) or present <= 0:
        return values[0]
    return min(numbers, key=lambda value: abs(math.log(value / (MUCH * present))))
