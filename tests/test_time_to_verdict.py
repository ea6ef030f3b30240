"""Launches and seconds to a verdict: shares add up, a study is read from outside, goals are judged."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planted_cells import KINDS, SHORT, SLOW_START, USUAL, Cell, chosen, portions
from benchmarks.time_to_verdict import Watch, seconds_of
from benchmarks.verdict_table import goals, line, medians, table


def cost(option: str, count: int) -> tuple[float, float]:
    """Slow and fast seconds of a machine on which fewer are dearer."""
    return count * 4e-5 + 1e-4, count * 5e-6


def a_row(**fields: Any) -> dict[str, Any]:
    """A run that met everything: start of 2 s, step of 20 ms."""
    return {
        "label": "after", "cell": "live/2/0.02", "repeat": 0, "loaded": False, "launches": 9, "seconds": 60.0,
        "verdict_reached": {"launches": 5, "seconds": 11.0, "ratio": 1.5}, "startup_s": 2.0, "step_ms": 20.0,
        "verdict": "change", "speedup": {"estimate": 1.5, "low": 1.4, "high": 1.6},
        "changes": {"optimizer_implementation": "fused"}, **fields,
    }  # fmt: skip


def a_trial(stage: str, low: float, **config: Any) -> dict[str, Any]:
    ratio = {"estimate": low + 0.1, "low": low, "high": low + 0.2}
    own = {"num_workers": 0, "malloc": "libc", **config}
    return {"stage": stage, "state": "complete", "config": own, "against_baseline": ratio}


def a_study(folder: Path, *trials: dict[str, Any], launches: int) -> None:
    with closing(sqlite3.connect(folder / "studies.db")) as connection, connection:
        connection.execute("create table advisor_trials (number integer, finished boolean, data text)")
        rows = [(number, True, json.dumps(trial)) for number, trial in enumerate(trials)]
        connection.executemany("insert into advisor_trials values (?, ?, ?)", rows)
    for number in range(launches):
        (folder / "studies" / "one" / f"{number:05d}").mkdir(parents=True)
    (folder / "studies" / "one" / "scratch").mkdir()


@pytest.mark.parametrize("gain", [1.1, 1.3, 1.5])
def test_what_is_wasted_is_the_gain_of_a_step_as_long_as_asked_for(gain: float) -> None:
    count, think_s = portions("--tensors", cost, gain, 0.5)
    slow, fast = (seconds + think_s for seconds in cost("--tensors", count))
    assert slow / fast == pytest.approx(gain)
    assert slow == pytest.approx(0.5, rel=0.01)


def test_a_gain_that_the_fault_cannot_bring_is_refused() -> None:
    with pytest.raises(ValueError, match="gains too little"):
        portions("--pages", lambda option, count: (1.2 * count, 1.0 * count), 1.5, 20)


def test_a_loader_waits_for_all_but_the_share_that_remains() -> None:
    words = Cell("loader/20/0.5").arguments(cost)
    assert words == ["--start", "20", "--think", "0.1250", "--wait", "0.3750"]


def test_every_usual_cell_is_there_and_has_arguments() -> None:
    cells = chosen(USUAL)
    assert [cell.asked_s for cell in cells] == sorted(cell.asked_s for cell in cells)
    assert {cell.name for cell in cells} == set(USUAL)
    assert all(cell.arguments(cost) for cell in cells)


def test_the_short_set_takes_cells_of_two_starts_within_25_minutes() -> None:
    cells = chosen(SHORT)
    assert {cell.name.split("/")[0] for cell in cells} == {"loader", "live", "restart"}
    assert {cell.name.split("/")[1] for cell in cells} == {"2", "20"}
    assert sum(cell.short_budget_s for cell in cells) <= 25 * 60


def test_the_table_says_what_was_asked_of_each_run() -> None:
    lines = table([a_row(), a_row(cell="restart/2/0.02"), a_row(cell=SLOW_START)]).splitlines()
    assert "| 5 launches, 12 s |" in lines[2] and "| 8 launches |" in lines[3]
    assert "| 5 launches, 300 s in all, 7x, more than 4 workers |" in lines[4]


def test_patterns_choose_cells_and_a_wrong_one_is_refused() -> None:
    assert len(chosen(["restart/*", SLOW_START])) == 10
    with pytest.raises(SystemExit, match="no cell is called fast"):
        chosen(["fast"])


def test_the_first_confirmation_of_a_planted_change_is_the_verdict(tmp_path: Path) -> None:
    trials = [
        a_trial("baseline", 0.9),
        a_trial("screen", 3.0, num_workers=4),
        a_trial("confirm", 1.1, malloc="libc-tuned"),
        a_trial("confirm", 1.01, num_workers=2),
    ]
    watch = Watch(tmp_path, KINDS["loader"].knobs)
    watch.look(1.0)  # before there is a study
    a_study(tmp_path, *trials, launches=3)
    watch.look(2.0)
    assert watch.verdict is None

    with closing(sqlite3.connect(tmp_path / "studies.db")) as connection, connection:
        late = json.dumps(a_trial("confirm", 2.0, num_workers=4))
        connection.execute("insert into advisor_trials values (9, 1, ?)", [late])
    watch.look(3.0)
    watch.look(4.0)
    assert watch.verdict == {"seconds": 3.0, "launches": 3, "ratio": pytest.approx(2.1)}


def test_the_verdict_is_when_it_is_told_unless_it_is_taken_back(tmp_path: Path) -> None:
    watch, errors = Watch(tmp_path, KINDS["loader"].knobs), tmp_path / "stderr.txt"
    a_study(tmp_path, a_trial("baseline", 0.9), launches=2)
    told = [
        "confirmed: malloc=libc-tuned, 1.20x (1.10 to 1.30)",
        "confirmed: num_workers=8, 4.10x (3.90 to 4.30)",
        "running num_workers=8 for longer",
        "taken back: num_workers=8, run for longer, does not fit after 300 steps",
        "confirmed: num_workers=4, 3.10x (2.90 to 3.30)",
    ]
    seconds, stands = [], []
    for count in range(1, len(told) + 1):
        errors.write_text("\n".join([*told[:count], "confirming num_workers=2"]))
        watch.look(float(count))
        seconds.append(None if watch.verdict is None else watch.verdict["seconds"])
        stands.append(watch.stands_s(float(count)))
    assert seconds == [None, 2.0, 2.0, None, 5.0] and stands == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert watch.verdict == {"seconds": 5.0, "launches": 2, "ratio": 3.1}


def test_a_run_is_judged_by_launches_and_by_the_seconds_of_its_own_start_and_step() -> None:
    assert goals(a_row()).met
    assert not goals(a_row(verdict_reached={"launches": 6, "seconds": 11.0})).launches
    assert goals(a_row(verdict_reached={"launches": 5, "seconds": 12.1})).seconds is False
    assert goals(a_row(cell="restart/2/0.02", verdict_reached={"launches": 8, "seconds": 999.0})).met
    assert not goals(a_row(verdict_reached=None)).met


def test_the_slow_start_must_gain_more_than_four_workers_bring() -> None:
    row = a_row(cell=SLOW_START, seconds=290.0, changes={"num_workers": 8}, speedup={"estimate": 7.2})
    assert goals(row).met
    assert not goals(row | {"changes": {"num_workers": 4}}).met
    assert not goals(row | {"seconds": 301.0}).met


def test_runs_without_a_verdict_count_in_the_median() -> None:
    rows = [a_row(), a_row(cell="live/20/0.5"), a_row(cell="live/60/2", verdict_reached=None)]
    assert medians(rows) == [
        "- after, live: 2 of 3 confirmed; 5 launches (at most 5: met); "
        "0.92 of 5 start-ups and 100 steps (met)"
    ]
    assert medians([a_row(), a_row(verdict_reached=None)]) == ["- after, live: 1 of 2 confirmed: not met"]


def test_a_run_that_was_interrupted_after_its_verdict_says_nothing_of_a_whole_one() -> None:
    assert "| 5 | 11 | 9 | 60 |" in line(a_row())
    assert "| 5 | 11 | - | - |" in line(a_row(to_verdict=True))


def test_a_run_that_failed_has_a_row_as_well() -> None:
    failed = {"label": "before", "cell": "live/2/0.02", "repeat": 0, "loaded": False, "verdict_reached": None,
              "launches": 2, "seconds": 9.0, "failed": "exit"}  # fmt: skip
    lines = table([a_row(), failed]).splitlines()
    assert [text.count("|") for text in lines[:4]] == [13] * 4
    assert "failed" in lines[2]


def test_a_budget_is_read_as_the_command_line_reads_it() -> None:
    assert [seconds_of(text) for text in ("90s", "10m", "1h")] == [90, 600, 3600]
