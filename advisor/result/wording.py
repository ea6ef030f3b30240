"""Numbers and sentences of every face: the same quantity reads the same on page, terminal and digest.

Digits follow the width of the interval; missing is said, never shown as zero; an interval of a ratio
that holds 1 is "no clear difference". User text enters through ``shown`` or ``shown_block`` only.
"""

import math
import re
from collections.abc import Mapping

from advisor.base.errors import clean
from advisor.result.document import Interval, Noise, Rate, Ratio, Recommendation, ResultData, Trial, Value
from advisor.result.words import CAUSES, GAINS, NUMERICS
from advisor.tuners.comparing.looks import LOOKS
from advisor.tuners.space.configuration import Configuration

MIB = 2**20
MISSING = "not measured"
NO_DIFFERENCE = "no clear difference"
UNDETERMINED = "not determined"
WHY_UNDETERMINED = "too few comparable slots"
BEYOND_BUDGET = "could not be confirmed"  # what the rest of a budget has no room for
UNPAID = "compilation is not paid back"
HOPELESS = "more processes would hardly show"  # of a confirmation that ended before its budget
UNWEIGHED = "what compilation gives by itself was not measured, and it may not be paid back"
DISTURBED = "other processes disturbed every trial"
REJECTED = "tried, not recommended"  # begins the reason of what the verdict itself tells
UNJUDGED = "no time was left to judge it by goodput"  # a larger batch

# An interval of a ratio from a tenth to ten times, or wider, says nothing about a change of a program. Such
# ones come of two or three slots that other load disturbed differently; their ends run to millions.
WIDEST = 100.0  # high over low

# Above 100 % a share no longer holds in both directions (nothing gets slower by losing 150 % of its speed),
# so larger differences are told as factors; above ``WIDEST`` nothing could have been seen.
MOST_SHARE = 1.0

WHOLE = 500  # characters of what advisor says itself, which may hold names of the program
SHORT = 60  # characters of settings in a heading
ROUNDED = "identical numbers up to rounding"


def shown(text: object, limit: int = 200) -> str:
    """One line of user text that any output can carry: no control, bidirectional or non-characters."""
    line = clean(str(text), limit)
    return line if line.isprintable() else "".join(c for c in line if not _is_noncharacter(c))


def shown_block(text: str, limit: int = 4000) -> str:
    """User text of several lines, each as in ``shown``; cut at ``limit`` characters in all."""
    lines = text.replace("\r\n", "\n").split("\n")
    block = "\n".join(shown(line, limit) for line in lines)
    return block if len(block) <= limit else block[: limit - 3] + "..."


def decimals(low: float, high: float, most: int = 4) -> int:
    """How many decimals an interval can bear: those that still tell its ends apart, plus a little."""
    width = abs(high - low)
    if width <= 0:
        return min(most, 2)
    return max(0, min(most, math.ceil(-math.log10(width / 3) - 1e-9)))


def number(value: float, digits: int) -> str:
    """A figure with ``digits`` decimals; a rounded minus zero reads 0."""
    text = f"{value:.{digits}f}"
    return text[1:] if float(text) == 0 and text.startswith("-") else text


def plain(value: float) -> str:
    """A figure without an interval: three significant digits, never an exponent."""
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return number(value, max(0, min(4, digits)))


def percent(share: float) -> str:
    """A share (0 to 1) as ``34 %``, one decimal below 10 %."""
    size = abs(100 * share)
    return f"{number(100 * share, 0 if size >= 9.95 or size == 0 else 1)} %"


def share_of(part: float, whole: float) -> str:
    """``part`` as a share of ``whole`` in percent; a trace of it reads ``under 0.1 %``."""
    if whole <= 0 or part <= 0:
        return "0 %"
    return percent(part / whole) if part / whole >= 0.0005 else "under 0.1 %"


def mib(count: float | None) -> str:
    """Bytes as MiB; none and zero were not measured."""
    return f"{_mib_number(count)} MiB" if count else MISSING


def seconds(value: float) -> str:
    """A duration in s, or in min and s from two minutes on."""
    if value < 120:
        return f"{number(value, 1 if value < 10 else 0)} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def undetermined(value: Interval) -> bool:
    """Whether an interval of something positive is so wide that its ends tell nothing."""
    return value.high > WIDEST * max(value.low, 0.0)


def interval(value: Interval | None, unit: str, digits: int = 0) -> str:
    """``12.4 ms (12.1 to 12.7)``, or ``12.4 ms (interval not determined: too few comparable slots)``.

    Args:
        value: A figure with its interval.
        unit: Stands behind it.
        digits: Decimals at least.
    """
    if value is None:
        return MISSING
    estimate, low, high = interval_parts(value, digits)
    if undetermined(value):
        return f"{estimate} {unit} (interval {UNDETERMINED}: {WHY_UNDETERMINED})"
    return f"{estimate} {unit} ({low} to {high})"


def interval_parts(value: Interval, digits: int = 0) -> tuple[str, str, str]:
    """Estimate, low and high as cells of a table; ends that tell nothing are not shown."""
    if undetermined(value):
        return plain(value.estimate), UNDETERMINED, UNDETERMINED
    digits = max(digits, decimals(value.low, value.high))
    return number(value.estimate, digits), number(value.low, digits), number(value.high, digits)


def rate(value: Rate | None, digits: int = 0) -> str:
    """``5160 samples/s (5080 to 5240)``, with so many decimals at least."""
    return MISSING if value is None else interval(value, value.unit, digits)


def holds_one(value: Interval) -> bool:
    """Whether the interval of a ratio allows that nothing changed."""
    return value.low <= 1 <= value.high


def ratio(value: Ratio | None, gain: str = "") -> str:
    """``1.42x (1.38 to 1.46, 99 %, 20 quads in 6 processes)``, or ``no clear difference (0.98 to 1.05)``.

    Args:
        value: Candidate over baseline.
        gain: What it is a ratio of, put before the bracket when there is a difference.
    """
    if value is None or holds_one(value):
        return short_ratio(value)
    of = f" {gain}" if gain else ""
    if undetermined(value):
        return f"{short_ratio(value)}{of} ({evidence(value)})"
    low, estimate, high = ratio_parts(value)
    return f"{estimate}x{of} ({low} to {high}, {evidence(value)})"


def short_ratio(value: Interval | None) -> str:
    """``1.42x (1.38 to 1.46)``: a ratio in a table whose conditions are told elsewhere."""
    if value is None:
        return MISSING
    low, estimate, high = ratio_parts(value)
    if not undetermined(value):
        return f"{NO_DIFFERENCE if holds_one(value) else f'{estimate}x'} ({low} to {high})"
    if holds_one(value):
        return f"{UNDETERMINED}: {WHY_UNDETERMINED}"
    return f"at least {low}x" if value.low > 1 else f"at most {high}x"


def ratio_parts(value: Interval) -> tuple[str, str, str]:
    """Low, estimate and high as text. An end is not rounded to 1, or to 0, if four digits help.

    Of an interval that tells nothing no end is shown; where only one side is certain, that side is.
    """
    if undetermined(value):
        low = plain(value.low) if value.low > 1 else UNDETERMINED
        high = plain(value.high) if value.high < 1 else UNDETERMINED
        return low, plain(value.estimate), high
    digits = decimals(value.low, value.high)
    while digits < 4 and any(
        float(number(end, digits)) in (0, 1) and end not in (0, 1) for end in (value.low, value.high)
    ):
        digits += 1
    return number(value.low, digits), number(value.estimate, digits), number(value.high, digits)


def evidence(value: Ratio) -> str:
    """``99 %, 20 quads in 6 processes``."""
    parts = [f"{100 * value.confidence:.4g} %"]
    quads = f"{value.quads} quad{'' if value.quads == 1 else 's'}" if value.quads else ""
    processes = f"{value.instances} process{'' if value.instances == 1 else 'es'}" if value.instances else ""
    if quads or processes:
        parts.append(" in ".join(part for part in (quads, processes) if part))
    return ", ".join(parts)


def memory(value: Interval | None) -> str:
    """``peak memory +6 % (+5 to +7)`` from candidate over baseline, smaller is better here."""
    if value is None:
        return "peak memory not compared"
    if holds_one(value):
        bounds = ratio_parts(value)
        return f"{NO_DIFFERENCE} in peak memory ({bounds[0]} to {bounds[2]})"
    low, estimate, high = (100 * (end - 1) for end in (value.low, value.estimate, value.high))
    digits = decimals(low, high, most=1)
    return f"peak memory {_signed(estimate, digits)} % ({_signed(low, digits)} to {_signed(high, digits)})"


def pace(value: Interval) -> str:
    """``throughput 0.91x (0.90 to 0.92)``, beside a gain that is none of time."""
    if holds_one(value) and not undetermined(value):
        low, _, high = ratio_parts(value)
        return f"{NO_DIFFERENCE} in throughput ({low} to {high})"
    return f"throughput {short_ratio(value)}"


def numerics(recommendation: Recommendation) -> str:
    """What is known about the numbers the model computes, in words."""
    reason = shown(recommendation.numerics_reason, WHOLE)
    words = ROUNDED if is_rounded(recommendation) else NUMERICS[recommendation.numerics]
    return f"{words}: {reason}" if reason else words


def is_rounded(recommendation: Recommendation) -> bool:
    """Whether losses that count as identical differ in their last digits."""
    reason = recommendation.numerics_reason
    return recommendation.numerics == "identical" and re.search(r"differ by (?!0 )", reason) is not None


def gain_of(result: ResultData) -> str:
    """What the speed-up is a ratio of: goodput only where the global batch was changed."""
    if result.objective == "goodput":
        batch = result.recommendation.config.get("batch_size"), result.baseline.config.get("batch_size")
        return GAINS["goodput"] if batch[0] != batch[1] else GAINS["throughput"]
    return GAINS[result.objective]


def verdict(result: ResultData) -> str:
    """The one sentence that opens every face."""
    said = sentence(result)
    if result.recommendation.verdict == "keep":
        return f"Keep what you have: {said[0].lower()}{said[1:]}"
    return said


def sentence(result: ResultData) -> str:
    """The verdict as it reads under its ``headline``."""
    found = result.recommendation
    if found.verdict == "keep":
        if is_unfinished(result):
            return "No change was confirmed, as the budget ended during the confirmation."
        if BEYOND_BUDGET in found.reason:
            return "No change was confirmed, as the budget had no room for it."
        if is_blind(result.noise):
            return f"No change was confirmed. {_capital(visible(result.noise))}."
        seen = percent(result.noise.smallest_detectable)
        return f"No change was confirmed. The smallest difference that could have been seen is {seen}."
    by_clock = "" if found.time_ratio is None else f", {pace(found.time_ratio)}"
    gain = f"{ratio(found.speedup, gain_of(result))}{by_clock}"
    return f"{gain}, {memory(found.memory_ratio)}, {numerics(found)}."


def is_unfinished(result: ResultData) -> bool:
    """Whether the last confirmation needs more pairs: no look decided, or they are for it but not surely."""
    confirmed = [trial for trial in result.trials if trial.stage == "confirm" and trial.state != "failed"]
    if result.recommendation.verdict == "change" or not confirmed or is_blind(result.noise):
        return False
    if HOPELESS in result.recommendation.reason:
        return False
    ratio, least = confirmed[-1].against_baseline, 1 + result.min_gain
    if ratio is None or (ratio.instances < LOOKS[-1] and ratio.low <= least < ratio.high):
        return True
    found = result.recommendation
    return found.speedup.low > least and not found.reason.startswith(UNPAID)


def headline(result: ResultData) -> str:
    """The verdict in a few words, for a heading."""
    found = result.recommendation
    if found.verdict == "keep":
        return "Keep what you have"
    settings = ", ".join(f"{shown(each.knob, 40)}={shown(each.to, 40)}" for each in found.changes)
    count = f"{len(found.changes)} change{'' if len(found.changes) == 1 else 's'}"
    changes = f"{count}, {settings}" if len(settings) <= SHORT else count
    gain = f"{ratio_parts(found.speedup)[1]}x {gain_of(result)}"
    return f"{changes}: {NO_DIFFERENCE if holds_one(found.speedup) else gain}"


def noise(result: ResultData) -> str:
    """The baseline against itself, and what could be seen through that noise."""
    return f"the baseline against itself: {ratio(result.noise.aa_ratio)}; {visible(result.noise)}"


def is_blind(noise: Noise) -> bool:
    """Whether even a step that takes half the time would have been lost in the noise."""
    return noise.smallest_detectable > MOST_SHARE


def visible(noise: Noise) -> str:
    """``differences from 1.8 % up could be seen``, or that the noise hid whatever there was."""
    if not is_blind(noise):
        return f"differences from {percent(noise.smallest_detectable)} up could be seen"
    what = "the machine was too busy" if noise.contended else "the measurements varied too much"
    if 1 + noise.smallest_detectable > WIDEST:
        return f"{what} to tell any difference"
    return f"{what} to see any difference below {difference(noise.smallest_detectable)}"


def difference(share: float) -> str:
    """A relative difference: ``34 %``, from 100 % on ``a factor of 2.5``, above a factor of 100 ``none``."""
    if share <= MOST_SHARE:
        return percent(share)
    return f"a factor of {_rough(1 + share)}" if 1 + share <= WIDEST else "none"


def setting(value: Value) -> str:
    """A knob's value as text; the empty one is said."""
    return shown(value) or "(empty)"


def differences(config: Mapping[str, Value], baseline: Mapping[str, Value]) -> list[str]:
    """``knob=value`` for each setting of ``config`` that is not the baseline's."""
    return [
        f"{shown(knob, 80)}={shown(value, 80)}"
        for knob, value in Configuration(config).changed(baseline).items()
    ]


def cause(trial: Trial) -> str:
    """Why a trial has no usable measurement, in words; empty when it has one."""
    return CAUSES[trial.cause] if trial.cause else ""


def states(trials: list[Trial]) -> str:
    """``14 trials: 9 complete, 3 dropped early, 2 failed``."""
    words = {"complete": "complete", "pruned": "dropped early", "failed": "failed"}
    counts = {word: sum(trial.state == state for trial in trials) for state, word in words.items()}
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{len(trials)} trial{'' if len(trials) == 1 else 's'}" + (f": {listed}" if listed else "")


def _rough(factor: float) -> str:
    return number(factor, 1 if factor < 10 else 0)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _mib_number(count: float) -> str:
    size = count / MIB
    if 0 < size < 0.05:
        return "under 0.1"
    return number(size, 0 if size >= 100 else 1)


def _signed(value: float, digits: int) -> str:
    text = number(value, digits)
    return text if text.startswith("-") or float(text) == 0 else f"+{text}"


def _is_noncharacter(character: str) -> bool:
    code = ord(character)
    return 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
