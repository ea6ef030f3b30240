"""The time of one step on each rank: stacked bars on one scale, their numbers, and what they say in words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from advisor.report.charts import drawing
from advisor.report.charts.charts import Chart, phase_style, phase_words
from advisor.result import wording
from advisor.result.wording import shown

WIDTH, LEFT, RIGHT, TOP = 860, 84, 96, 12
ROW, HEIGHT = 32, 20
MOST_BARS = 32  # in one drawing
MOST_ROWS = 256  # in its table
MOST_LINES = 8  # in a terminal or a digest

PARTS = {
    "compute": "forward",
    "overlapped communication": "backward",
    "exposed communication": "communication",
    "waiting for others": "sync",
    "input wait": "input_wait",
    "idle": "other",
}
"""Parts of a rank's step, and the part of a step whose colour and pattern each of them has."""

MEANING = (
    "Exposed communication: nothing is computed meanwhile. Overlapped: it runs while the rank computes. "
    "Waiting for others: this rank had come to an exchange and another had not; it is taken off exposed "
    "communication."
)
PHASE_MEANING = (
    "Parts as the training process of each rank saw them; waiting for others is communication here."
)


@dataclass(frozen=True)
class Key:
    """One part in the legend; ``text`` is its share of a step, mean of all ranks."""

    name: str
    text: str
    colour: str
    pattern: str


@dataclass(frozen=True)
class RankPicture:
    """The ranks of a run as a page shows them; ``note`` says what the words mean and what is left out."""

    said: str
    chart: Chart
    legend: list[Key]
    note: str


@dataclass(frozen=True)
class RankBar:
    """One rank: milliseconds of its step by part; where known MiB exchanged per step, and of peak memory."""

    rank: str
    step_ms: float
    parts: dict[str, float]
    exchanged: float | None
    memory: float | None = None

    @property
    def own_ms(self) -> float:
        """What it does not wait for others."""
        return self.step_ms - self.parts.get("waiting for others", 0.0)


def rank_picture(name: str, ranks: Sequence[Mapping[str, Any]]) -> RankPicture | None:
    """The ranks of a profile drawn, ``None`` where there are none.

    Args:
        name: Put before every id in the drawing.
        ranks: As they stand in a result.
    """
    bars = bars_of(ranks)
    if not bars:
        return None
    said = sentence(bars)
    drawn = sorted(sorted(bars, key=lambda bar: -bar.own_ms)[:MOST_BARS], key=bars.index)
    detailed = _detailed(ranks)
    note = MEANING if detailed else PHASE_MEANING
    if len(drawn) < len(bars):
        note += f" Drawn are the {len(drawn)} of {len(bars)} ranks that take longest without such waits."
    if len(bars) > MOST_ROWS:
        note += f" The table has the first {MOST_ROWS}; all of them are in result.json."
    chart = Chart(_draw(name, drawn, said), *_numbers(bars[:MOST_ROWS]))
    legend = [Key(words, share, *phase_style(_phase(words))) for words, share in _mean_shares(bars).items()]
    return RankPicture(said, chart, legend, note)


def bars_of(ranks: Sequence[Mapping[str, Any]]) -> list[RankBar]:
    """The step of each rank by part; by phase where computing and communicating were not told apart."""
    split = _split if _detailed(ranks) else _phases
    return [
        RankBar(
            rank=shown(facts.get("rank", at), 40) or "(unnamed)",
            step_ms=_amount(facts, "step_ms"),
            parts=split(facts),
            exchanged=_amount(facts, "communication_bytes") / wording.MIB or None,
            memory=_amount(facts, "memory_bytes") / wording.MIB or None,
        )
        for at, facts in enumerate(ranks)
    ]


def sentence(bars: Sequence[RankBar]) -> str:
    """``Mean of 2 ranks: 61 % of a step is compute, 20 % idle. Rank 0 waits longest for others, ...``."""
    shares = [f"{share} {words}" for words, share in _mean_shares(bars).items()]
    who = f"Rank {bars[0].rank}" if len(bars) == 1 else f"Mean of {len(bars)} ranks"
    if not shares:
        return f"{who}: the parts of a step are not known."
    first, *others = shares
    share, _, words = first.partition(" % ")
    said = f"{who}: {', '.join([f'{share} % of a step is {words}', *others])}."
    return said + _waits(bars)


def lines(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ranks for a terminal: the sentence, then a line for each of the first ones."""
    bars = bars_of(ranks)
    if not bars:
        return []
    told = [
        f"  rank {bar.rank}: {wording.plain(bar.step_ms)} ms: {parts_of(bar)}" for bar in bars[:MOST_LINES]
    ]
    if len(bars) > MOST_LINES:
        told.append(f"  {len(bars) - MOST_LINES} more ranks are in result.json")
    return [sentence(bars), *told]


def parts_of(bar: RankBar) -> str:
    """``compute 5.00 ms, idle 1.00 ms``."""
    parts = [f"{words} {wording.plain(ms)} ms" for words, ms in bar.parts.items() if ms > 0]
    return ", ".join(parts) or wording.MISSING


def _waits(bars: Sequence[RankBar]) -> str:
    waits = [bar.parts.get("waiting for others", 0.0) for bar in bars]
    if len(bars) < 2 or max(waits) <= 0:
        return ""
    longest, least = bars[waits.index(max(waits))], bars[waits.index(min(waits))]
    return (
        f" Rank {longest.rank} waits longest for others, {wording.plain(max(waits))} ms; "
        f"rank {least.rank} least, {wording.plain(min(waits))} ms."
    )


def _mean_shares(bars: Sequence[RankBar]) -> dict[str, str]:
    """Share of the mean step by part, largest first; parts that no rank has are left out."""
    sums: dict[str, float] = {}
    for bar in bars:
        for words, ms in bar.parts.items():
            sums[words] = sums.get(words, 0.0) + ms
    total = sum(sums.values())
    return {
        words: wording.share_of(ms, total)
        for words, ms in sorted(sums.items(), key=lambda item: -item[1])
        if ms > 0
    }


def _detailed(ranks: Sequence[Mapping[str, Any]]) -> bool:
    return any("compute_ms" in facts for facts in ranks)


def _split(facts: Mapping[str, Any]) -> dict[str, float]:
    """Parts that do not overlap and fill the step."""
    compute, exposed = _amount(facts, "compute_ms"), _amount(facts, "exposed_ms")
    overlapped = min(compute, max(0.0, _amount(facts, "communication_ms") - exposed))
    waiting = min(exposed, _amount(facts, "wait_ms"))
    rest = max(0.0, _amount(facts, "step_ms") - compute - exposed)
    loading = min(rest, _amount(facts, "input_wait_ms"))
    # The host loads with operators of its own, which count as computing.
    on_host = "backend" in facts and not facts.get("device_tensors")
    with_operators = min(_amount(facts, "input_wait_ms") - loading, compute - overlapped) if on_host else 0.0
    return {
        "compute": compute - overlapped - with_operators,
        "overlapped communication": overlapped,
        "exposed communication": exposed - waiting,
        "waiting for others": waiting,
        "input wait": loading + with_operators,
        "idle": rest - loading,
    }


def _phases(facts: Mapping[str, Any]) -> dict[str, float]:
    """What the training process of a rank did, with what no phase covers as ``other``."""
    parts = {phase_words(phase): _amount(facts, phase) for phase in drawing.PHASES}
    missing = _amount(facts, "step_ms") - sum(parts.values())
    parts["other"] += max(0.0, missing) if any(parts.values()) else 0.0
    return parts


def _phase(words: str) -> str:
    return PARTS.get(words, words.replace(" ", "_"))


def _amount(facts: Mapping[str, Any], name: str) -> float:
    """A figure of a rank; 0 for what is none."""
    value = facts.get(name)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(0.0, float(value))


def _draw(name: str, bars: Sequence[RankBar], said: str) -> Markup:
    longest = max(max(bar.step_ms, sum(bar.parts.values())) for bar in bars)
    scale = (WIDTH - LEFT - RIGHT) / longest if longest > 0 else 0.0
    drawn = [drawing.patterns(name)]
    for number, bar in enumerate(bars):
        drawn += _bar(name, bar, TOP + number * ROW, scale)
    bottom = TOP + len(bars) * ROW
    ticks = [tick for tick in drawing.round_ticks(0, longest) if tick <= longest]
    drawn += drawing.vertical_axis(
        ticks, lambda value: LEFT + value * scale, bottom, bottom + 6, "ms, from zero", WIDTH - RIGHT
    )
    return drawing.svg_document(
        name, WIDTH, bottom + 42, "Time of one step on each rank, by part", f"Stacked bars. {said}", drawn
    )


def _bar(name: str, bar: RankBar, top: float, scale: float) -> list[Markup]:
    middle, at = top + HEIGHT / 2 + 4, float(LEFT)
    drawn = [drawing.label(LEFT - 8, middle, f"rank {bar.rank[:6]}", anchor="end")]
    for words, ms in bar.parts.items():
        if ms <= 0:
            continue
        wide = ms * scale
        tip = drawing.tooltip(f"rank {bar.rank}, {words}: {wording.plain(ms)} ms")
        drawn.append(
            drawing.element(
                "rect", tip, x=at, y=top, width=max(wide - 1, 0.4), height=HEIGHT,
                fill=drawing.phase_fill(name, _phase(words)), stroke=drawing.phase_colour(_phase(words)),
            )
        )  # fmt: skip
        at += wide
    return [*drawn, drawing.label(at + 6, middle, f"{wording.plain(bar.step_ms)} ms", colour=drawing.MUTED)]


def _numbers(bars: Sequence[RankBar]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    names = [words for words in bars[0].parts if any(bar.parts[words] > 0 for bar in bars)]
    columns: dict[str, list[float | None]] = {"step (ms)": [bar.step_ms for bar in bars]}
    columns |= {f"{words} (ms)": [bar.parts[words] for bar in bars] for words in names}
    further = {
        "exchanged (MiB)": [bar.exchanged for bar in bars],
        "peak memory (MiB)": [bar.memory for bar in bars],
    }
    columns |= {name: values for name, values in further.items() if any(values)}
    rows = [
        (
            bar.rank,
            *(
                wording.MISSING if (value := each[at]) is None else wording.plain(value)
                for each in columns.values()
            ),
        )
        for at, bar in enumerate(bars)
    ]
    return ("rank", *columns), rows
