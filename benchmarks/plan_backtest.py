"""How `advisor plan` does on published series whose source it knows nothing of, beside perfect scaling.

`python -m benchmarks.plan_backtest FOLDER` learns priors from all sources but one (`plan_priors.py`),
predicts that one, and so on for each; it writes benchmarks/results/plan.json and plan.md. Errors are means
over the counts of a series, then over series, and over sources in their own column. Two things know the
source left out: the quantiles of intervals come from residuals of the other sources, whose priors had seen it
(medians over all programs, so by little), and the shares and scales in advisor/planning/predicting.py were
chosen by this table.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.plan_priors import left_out, spreads, with_spread
from benchmarks.plan_tasks import Answer
from benchmarks.scaling_series import read

RESULTS = Path(__file__).parent / "results"
ASKED = {  # (mean error, coverage, over which mean coverage counts)
    "more_nodes": (0.04, 0.88, "covered"),
    "one_node": (0.05, None, "covered"),
    "one_node_from_one_point": (None, None, "covered"),
    "leaving": (None, None, "covered"),
    "leaving_named": (0.08, 0.85, "covered_by_source"),
}
WORDS = {
    "more_nodes": "several nodes to at least 4 times more",
    "one_node": "one node, from at least two of 1, 2 and 4 to 8 and more",
    "one_node_from_one_point": "one node, from a single point to 8 and more",
    "leaving": "one node to many, nothing known of the network",
    "leaving_named": "one node to many, network named and bytes known",
    "one_node_first_one": "one node, from the first count to all more",
    "one_node_first_some": "one node, from the first two or more to all more",
    "one_node_pair": "one node, from two neighbouring counts to all more",
    "one_node_between": "one node, between the first and the last",
    "one_node_last_one": "one node, from one count to all fewer",
    "one_node_last_some": "one node, from the last two or more to all fewer",
    "leaving_from_last": "one node to many, from the last count alone",
    "leaving_named_from_last": "the same with the network named",
    "two_nodes": "two nodes to three and more",
    "nodes_first_one": "several nodes, from the first count to all more",
    "nodes_first_some": "several nodes, from the first two or more to all more",
    "nodes_pair": "several nodes, from two neighbouring counts to all more",
    "nodes_between": "several nodes, between the first and the last",
    "nodes_last_one": "several nodes, from one count to all fewer",
    "nodes_last_some": "several nodes, from the last two or more to all fewer",
    "entering": "several nodes to one",
    "entering_named": "the same with the network named",
}
"""Tasks by kind, those that are asked for first; the rest are other ways to part the same series."""

Kept = tuple[Answer, bool]


def summary(by_source: Mapping[str, Sequence[Answer]]) -> dict[str, dict[str, float | int]]:
    """Errors and coverage by kind of task."""
    kinds: dict[str, dict[tuple[str, str], list[Kept]]] = defaultdict(lambda: defaultdict(list))
    for source, given in by_source.items():
        spread = spreads({name: rows for name, rows in by_source.items() if name != source})
        for answer in given:
            inside = with_spread(answer, spread[answer.predicted.spread])
            kinds[answer.task.kind][source, answer.task.series.name].append((answer, inside))
    return {kind: _row(series) for kind, series in kinds.items()}


def _row(series: Mapping[tuple[str, str], list[Kept]]) -> dict[str, float | int]:
    errors = {name: float(np.mean([answer.error for answer, _ in rows])) for name, rows in series.items()}
    perfect = [
        np.mean([abs(answer.perfect_ms / answer.measured_ms - 1) for answer, _ in rows])
        for rows in series.values()
    ]
    trivial = [
        np.mean([abs(answer.predicted.trivial_ms / answer.measured_ms - 1) for answer, _ in rows])
        for rows in series.values()
    ]
    covered = {name: float(np.mean([inside for _, inside in rows])) for name, rows in series.items()}
    return {
        "series": len(series),
        "sources": len({source for source, _ in series}),
        "perfect_error": float(np.mean(perfect)),
        "trivial_error": float(np.mean(trivial)),
        "mean_error": float(np.mean(list(errors.values()))),
        "median_error": float(np.median(list(errors.values()))),
        "error_by_source": _over_sources(errors),
        "covered": float(np.mean(list(covered.values()))),
        "covered_by_source": _over_sources(covered),
    }


def _over_sources(values: Mapping[tuple[str, str], float]) -> float:
    by_source = defaultdict(list)
    for (source, _), value in values.items():
        by_source[source].append(value)
    return float(np.mean([np.mean(rows) for rows in by_source.values()]))


def told(rows: Mapping[str, Mapping[str, float | int]]) -> str:
    """The table in Markdown, with what was asked and whether it was reached."""
    lines = [
        "# Back-test of `advisor plan`",
        "",
        "By `python -m benchmarks.plan_backtest FOLDER`: each source predicted by priors of all others.",
        "",
        "| task | series (sources) | perfect scaling | trivial | predicted | median | over sources |"
        " 90 % interval covers | over sources | asked |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, words in WORDS.items():
        row = rows[kind]
        shares = ("perfect_error", "trivial_error", "mean_error", "median_error", "error_by_source")
        cells = [f"{row[name]:.1%}" for name in shares]
        cells += [f"{row['covered']:.0%}", f"{row['covered_by_source']:.0%}", _verdict(kind, row)]
        lines.append(f"| {words} | {row['series']} ({row['sources']}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _verdict(kind: str, row: Mapping[str, float | int]) -> str:
    error, coverage, which = ASKED.get(kind, (None, None, "covered"))
    said = []
    if error is not None:
        said.append(f"error {error:.0%}: {'reached' if row['mean_error'] <= error else 'not reached'}")
    if coverage is not None:
        said.append(f"coverage {coverage:.0%}: {'reached' if row[which] >= coverage else 'not reached'}")
    return "; ".join(said) or "-"


def main() -> None:
    """Run it, write both files."""
    rows = summary(left_out(read(Path(sys.argv[1]))))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "plan.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "plan.md").write_text(told(rows), encoding="utf-8")
    print(told(rows), end="")


if __name__ == "__main__":
    main()
