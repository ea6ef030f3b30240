"""Horizontal bars from zero for what has no interval: memory by category, shares of limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.report.charts.charts import Chart
from advisor.report.charts.drawing import (
    MUTED,
    SERIES_1,
    element,
    label,
    round_ticks,
    svg_document,
    tooltip,
    vertical_axis,
)
from advisor.result import wording
from advisor.result.conditions import Fact
from advisor.result.document import ProfileSummary
from advisor.result.wording import shown

WIDTH, LEFT, RIGHT, ROW = 430, 150, 84, 28
MOST_BARS = 16
PEAKS = {
    "host_peak": "peak of the process", "device_peak": "peak of the device",
    "device_reserved": "reserved on the device",
}  # fmt: skip
SMALL = 0.1  # of the peak, below which no category is worth a sentence
LIMITS = {"flops": "arithmetic", "memory": "memory traffic"}
UNKNOWN = (
    "Operators without a known formula count as none, so the true share can be larger; what lies far below "
    "both limits waits for something else."
)
LIMIT_MEANING = (
    "Share of what this machine was measured to do at most: arithmetic against the fastest matmul of the "
    f"same dtype, memory traffic against copying in order. {UNKNOWN}"
)


@dataclass(frozen=True)
class Limits:
    """Memory and the limits of the machine, as far as they are known; ``title`` is of ``reached``."""

    memory: Chart | None
    reached: Chart | None
    said: list[str]
    meaning: str
    title: str


def limits_part(summary: ProfileSummary, prefix: str = "") -> Limits | None:
    """Both drawings; ``None`` where neither is known."""
    memory = _memory(f"{prefix}memory-by-category", summary.memory_bytes)
    limits = "limits on the data sheet" if summary.rates_from else "measured limits"
    reached = _reached(f"{prefix}roofline", summary.roofline, limits)
    if memory is None and reached is None:
        return None
    said = [text for text in (_memory_said(summary.memory_bytes), _reached_said(summary.roofline)) if text]
    meaning = LIMIT_MEANING
    if summary.rates_from:
        meaning = f"Limits by the {shown(summary.rates_from)}, which no program quite reaches. {UNKNOWN}"
    return Limits(
        memory, reached, said, meaning if reached else "", f"Share of the {limits} that a step reaches"
    )


def rates(summary: ProfileSummary) -> list[Fact]:
    """What the machine can do at most, measured or by a data sheet."""
    return [Fact(shown(name, 80).replace("_", " "), _si(value)) for name, value in summary.rates.items()]


def sheet(summary: ProfileSummary) -> str:
    """From where limits are that were not measured; empty where they were."""
    return f"by the {shown(summary.rates_from)}" if summary.rates_from else ""


def category(name: str) -> str:
    """A category of memory in words."""
    return PEAKS.get(name, shown(name, 80).replace("_", " ") or "(unnamed)")


def limit(name: str) -> str:
    """A limit of the machine in words."""
    return LIMITS.get(name, shown(name, 80).replace("_", " ") or "(unnamed)")


def _memory(name: str, memory_bytes: Mapping[str, int]) -> Chart | None:
    sizes = [(category(key), size / wording.MIB, wording.mib(size)) for key, size in _largest(memory_bytes)]
    if not sizes:
        return None
    bars = [(words, value, text) for words, value, text in sizes if value > 0]
    said = _memory_said(memory_bytes)
    return _bars(name, "Peak memory by category", said, "MiB, from zero", bars, ("category", "memory"))


def _reached(name: str, roofline: Mapping[str, float], limits: str) -> Chart | None:
    bars = [(limit(key), 100 * share, wording.share_of(share, 1.0)) for key, share in roofline.items()]
    if not bars:
        return None
    return _bars(
        name, f"Share of the {limits} that a step reaches", _reached_said(roofline),
        "% of the limit, from zero", bars, ("limit", "share reached"), most=100.0,
    )  # fmt: skip


def _bars(
    name: str,
    title: str,
    said: str,
    unit: str,
    bars: Sequence[tuple[str, float, str]],
    columns: tuple[str, str],
    most: float = 0.0,
) -> Chart:
    """Bars from top to bottom, each with its name and its value as text."""
    drawn = bars[:MOST_BARS]
    longest = max([most, *(value for _, value, _ in drawn)])
    scale = (WIDTH - LEFT - RIGHT) / longest if longest > 0 else 0.0
    bottom = 12 + ROW * len(drawn)
    ticks = [tick for tick in round_ticks(0, longest, 4) if tick <= longest]
    parts = vertical_axis(ticks, lambda value: LEFT + value * scale, 6, bottom, unit, WIDTH - RIGHT)
    for index, (words, value, text) in enumerate(drawn):
        middle = 12 + ROW * index + ROW / 2
        colour = MUTED if words in PEAKS.values() else SERIES_1
        tip = tooltip(f"{words}: {text}")
        wide = max(value * scale, 0.6)
        parts += [
            label(LEFT - 8, middle + 4, words[:20], anchor="end"),
            element("rect", tip, x=LEFT, y=middle - 8, width=wide, height=16, fill=colour),
            label(LEFT + wide + 6, middle + 4, text, colour=MUTED),
        ]
    rows = [(words, text) for words, _, text in bars]
    return Chart(svg_document(name, WIDTH, bottom + 38, title, said, parts), columns, rows)


def _largest(memory_bytes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Peaks first, then the categories by size."""
    return sorted(memory_bytes.items(), key=lambda item: (item[0] not in PEAKS, -item[1]))


def _memory_said(memory_bytes: Mapping[str, int]) -> str:
    parts = [(name, size) for name, size in _largest(memory_bytes) if name not in PEAKS and size > 0]
    if not parts:
        return ""
    name, size = parts[0]
    peak = max((memory_bytes.get(each, 0) for each in PEAKS), default=0)
    if size < SMALL * peak or (name == "other" and size > peak / 2):
        return "Most of the memory is not the model's: the interpreter, libraries and data."
    return f"The largest category of memory is {category(name)}: {wording.mib(size)}."


def _reached_said(roofline: Mapping[str, float]) -> str:
    if not roofline:
        return ""
    told = [
        f"{wording.share_of(share, 1.0)} of the limit of {limit(name)}" for name, share in roofline.items()
    ]
    return f"While it computes, a step reaches {' and '.join(told)}."


def _si(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{wording.plain(value / size)} {letter}"
    return wording.plain(value)
