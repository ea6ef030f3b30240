"""The stored comparison of predicted with measured memory of two real ranks."""

import json

import pytest

from advisor.planning.memory import Memory
from advisor.planning.places import Place
from benchmarks.rank_memory import PROGRAMS, RANKS, RESULTS, STRATEGIES_RUN, categories_of


@pytest.mark.parametrize("strategy", STRATEGIES_RUN)
@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_of_two_real_ranks_is_predicted_within_3_percent(program: str, strategy: str) -> None:
    """From what one process took alone, by the model as it is now."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["programs"][program]
    row = next(row for row in found["rows"] if row["strategy"] == strategy)
    batch = PROGRAMS[program].batch
    predicted = (
        Memory(categories_of(found["alone_mb"], batch)).at(strategy, Place(RANKS, 1, batch)).peak_bytes
    )
    assert predicted == pytest.approx(row["measured_mb"], rel=0.03)
    assert predicted == pytest.approx(row["predicted_mb"])
