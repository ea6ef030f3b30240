"""The back-test reads published series, predicts each source by the others, and says what was reached."""

from pathlib import Path

import pytest

from benchmarks.plan_backtest import summary, told
from benchmarks.plan_priors import left_out
from benchmarks.plan_tasks import tasks
from benchmarks.scaling_series import read

HEADER = "series,params_m,n_gpus,nodes,global_batch,local_batch,precision,strategy,throughput,step_s,note\n"
COUNTS = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 2), (32, 4), (64, 8), (128, 16))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for source, growth in (("a", 1.0), ("b", 1.02), ("c", 1.04)):
        rows = [
            f"net,25,{n},{nodes},{32 * n},32,fp32,ddp,,{0.1 * growth**k},100Gb\n"
            for k, (n, nodes) in enumerate(COUNTS)
        ]
        (tmp_path / f"{source}.csv").write_text(HEADER + "".join(rows))
    return tmp_path


def test_rows_become_series_of_counts(folder: Path) -> None:
    first = read(folder)[0]
    assert [(row.ranks, row.nodes) for row in first.rows] == list(COUNTS)
    assert (first.gradient_bytes, first.node_bytes_per_s) == (100e6, 12.5e9)


def test_a_series_asks_only_for_what_was_not_given(folder: Path) -> None:
    for task in tasks(read(folder)[0]):
        assert not set(task.given) & set(task.asked)
        if task.kind == "more_nodes":
            assert min(row.ranks for row in task.asked) >= 4 * max(row.ranks for row in task.given)


def test_programs_that_scale_nearly_alike_are_predicted_and_told(folder: Path) -> None:
    rows = summary(left_out(read(folder)))
    assert rows["more_nodes"]["series"] == 3
    assert rows["more_nodes"]["mean_error"] < 0.1
    assert "several nodes to at least 4 times more" in told(
        rows | {"one_node_from_one_point": rows["one_node"]}
    )
