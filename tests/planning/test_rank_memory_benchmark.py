"""The stored comparison of predicted with measured memory of two real ranks."""

import json

import pytest

from benchmarks.rank_memory import RESULTS, predicted

STORED = json.loads(RESULTS.read_text(encoding="utf-8"))["programs"]
ROWS = [(program, row["strategy"]) for program, found in STORED.items() for row in found["rows"]]


@pytest.mark.parametrize(("program", "strategy"), ROWS)
def test_memory_of_two_real_ranks_is_predicted_within_3_percent(program: str, strategy: str) -> None:
    """From what one process took alone, by the model as it is now."""
    found = STORED[program]
    row = next(row for row in found["rows"] if row["strategy"] == strategy)
    told = (row.get(name, 0.0) for name in ("held_parameters_mb", "largest_parameter_mb"))
    said = predicted(program, found["alone_mb"], strategy, *told)
    assert said == pytest.approx(row["measured_mb"], rel=0.03)
    assert said == pytest.approx(row["predicted_mb"])
