"""Runs that looked for a planted gain as rows of a table, each with what was asked of it."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.planted_cells import (
    FIELD,
    FIELD_SECONDS,
    FIELD_WORKERS,
    KINDS,
    SLOW_START,
    STARTUPS,
    STEPS,
    Cell,
)


@dataclass(frozen=True)
class Goals:
    """Whether one run, or the median of several, met what is asked of it; None where nothing is asked."""

    launches: bool
    seconds: bool | None
    gain: bool

    @property
    def met(self) -> bool:
        """All of them."""
        return self.launches and self.seconds is not False and self.gain


def goals(row: Mapping[str, Any]) -> Goals:
    """Judge one run."""
    cell, reached = Cell(row["cell"]), row["verdict_reached"]
    if reached is None or row.get("failed") or row["verdict"] != "change":
        return Goals(False, False if cell.kind.in_time else None, False)
    launches = reached["launches"] <= cell.kind.launches
    if cell.name == SLOW_START:
        workers = row["changes"].get("num_workers", 0)
        gained = row["speedup"]["estimate"] >= FIELD.gain and workers > FIELD_WORKERS
        return Goals(launches, row["seconds"] <= FIELD_SECONDS, gained)
    return Goals(launches, reached["seconds"] <= limit_s(row) if cell.kind.in_time else None, True)


def medians(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each version and kind: medians of launches and of the share of the time that was allowed."""
    lines = []
    for label in dict.fromkeys(row["label"] for row in rows):
        for name, kind in KINDS.items():
            own = [row for row in rows if row["label"] == label and row["cell"].split("/")[0] == name]
            reached = [row for row in own if row["verdict_reached"] and row.get("startup_s")]
            if not own:
                continue
            told = f"- {label}, {name}: {len(reached)} of {len(own)} confirmed"
            if reached and 2 * len(reached) > len(own):
                launches = median_of_all([row["verdict_reached"]["launches"] for row in reached], len(own))
                told += (
                    f"; {launches:g} launches (at most {kind.launches}: {_word(launches <= kind.launches)})"
                )
                if kind.in_time:
                    shares = [row["verdict_reached"]["seconds"] / limit_s(row) for row in reached]
                    share = median_of_all(shares, len(own))
                    told += f"; {share:.2f} of {STARTUPS} start-ups and {STEPS} steps ({_word(share <= 1)})"
            else:
                told += ": not met"
            lines.append(told)
    return lines


def median_of_all(reached: Sequence[float], count: int) -> float:
    """Median of ``count`` runs of which those that are missing never reached it."""
    return statistics.median([*reached, *[float("inf")] * (count - len(reached))])


def limit_s(row: Mapping[str, Any]) -> float:
    """Seconds within which a verdict is asked for, by the start and the step that were measured."""
    return float(STARTUPS * row["startup_s"] + STEPS * row["step_ms"] / 1e3)


def asked(row: Mapping[str, Any]) -> str:
    """What is asked of one run, in words."""
    cell = Cell(row["cell"])
    words = [f"{cell.kind.launches} launches"]
    if cell.name == SLOW_START:
        words += [f"{FIELD_SECONDS:.0f} s in all", f"{FIELD.gain:g}x", f"more than {FIELD_WORKERS} workers"]
    elif cell.kind.in_time and row.get("startup_s"):
        words.append(f"{limit_s(row):.0f} s")
    return ", ".join(words)


def line(row: Mapping[str, Any]) -> str:
    """One run as a row of the table."""
    cells = [row["label"] + (", loaded" if row["loaded"] else ""), row["cell"]]
    reached = row["verdict_reached"]
    cells += [str(reached["launches"]), f"{reached['seconds']:.0f}"] if reached else ["-", "-"]
    searched_on = not row.get("to_verdict")  # else it was interrupted after its verdict
    cells += [str(row["launches"]), f"{row['seconds']:.0f}"] if searched_on else ["-", "-"]
    if row.get("failed"):
        return "| " + " | ".join([*cells, "-", "-", "failed", "", asked(row), "not met"]) + " |"
    speedup = row["speedup"]
    cells += [f"{row['startup_s'] or 0:.1f}", f"{row['step_ms']:.0f}"]
    cells.append(
        f"{row['verdict']} {speedup['estimate']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"
    )
    changes = ", ".join(f"{knob}={to}" for knob, to in row["changes"].items())
    cells += [changes, asked(row), _word(goals(row).met)]
    return "| " + " | ".join(cells) + " |"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All runs, cell by cell, and what is met in the median."""
    heads = (
        "version", "cell", "launches to verdict", "seconds to verdict", "launches", "seconds", "start (s)",
        "step (ms)", "verdict", "changes", "asked", "goals",
    )  # fmt: skip
    ordered = sorted(
        rows, key=lambda row: (row["cell"], row["loaded"], row["label"] == "after", row["repeat"])
    )
    head = "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    return "\n".join([head, *map(line, ordered), "", *medians(rows)])


def _word(met: bool) -> str:
    return "met" if met else "not met"
