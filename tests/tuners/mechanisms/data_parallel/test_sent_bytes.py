import pytest

from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_gather, all_reduce, reduce_scatter


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_a_worker_passes_on_all_parts_but_one(workers: int) -> None:
    size = 2400
    assert all_gather(size, workers) == pytest.approx(size - size / workers)
    assert reduce_scatter(size, workers) == all_gather(size, workers)
    assert all_reduce(size, workers) == 2 * all_gather(size, workers)


def test_gloo_reduces_everything_to_scatter_it() -> None:
    assert reduce_scatter(800, 4, gloo=True) == all_reduce(800, 4) == 1200


def test_a_process_alone_sends_nothing() -> None:
    assert all_reduce(800, 1) == 0
