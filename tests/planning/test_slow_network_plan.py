"""What the check on a slow network makes of its runs; the runs themselves need root and minutes."""

import json
from pathlib import Path

import pytest

from benchmarks.slow_network_plan import (
    BASE,
    MBIT,
    PAYLOAD,
    SCHEMES,
    Row,
    predicted_beside,
    stored_runs,
    told,
    wrong_rankings,
)


def test_difference_between_counts_is_the_laws() -> None:
    """With 6.4 MB over 100 Mbit/s a ring of four takes half a sending more than one of two."""
    sending = 4 * (512 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10) / (MBIT * 1e6 / 8 * PAYLOAD)
    ran = {(scheme, workers): 3.0 for scheme in SCHEMES for workers in (BASE, 3, 4)}
    rows = {(row.scheme, row.workers): row for row in predicted_beside(ran)}
    assert rows["ring", 4].predicted_s == pytest.approx(3.0 + sending / 2)
    assert rows["parameter server", 4].predicted_s == pytest.approx(3.0 + 4 * sending)
    assert rows["parameter server, 2 servers", 4].predicted_s == pytest.approx(3.0 + 2 * sending)
    assert rows["ring", 4].error == pytest.approx(sending / 6)


def test_only_clear_differences_are_ranked() -> None:
    """Two schemes 5 % apart may stand either way; 50 % apart they may not."""
    near = [Row("a", 3, 1.0, 2.0, 1.0), Row("b", 3, 1.05, 1.9, 0.8)]
    clear = [Row("a", 3, 1.0, 2.0, 1.0), Row("b", 3, 1.5, 1.9, 0.3)]
    assert wrong_rankings(near) == []
    assert wrong_rankings(clear) == ["a before b with 3"]


def test_runs_are_read_back_from_what_was_written(tmp_path: Path) -> None:
    """A run that was cut off goes on with what it had; nothing is predicted without the run of two."""
    file = tmp_path / "plan.json"
    assert stored_runs(file) == {}
    ran = {("ring", BASE): 0.5, ("ring", 3): 0.75, ("parameter server", BASE): 2.0}
    file.write_text(json.dumps(told(ran, 3)))
    assert stored_runs(file) == ran
    assert told({("ring", BASE): 0.5}, 3)["largest_error"] is None
