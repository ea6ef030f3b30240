import time
from pathlib import Path

import pytest

from advisor.profiles.hooks import busy_time
from advisor.profiles.hooks.busy_time import spent_ns


def test_a_thread_that_sleeps_does_not_compute() -> None:
    computed, free = spent_ns()
    time.sleep(0.2)
    after_computed, after_free = spent_ns()
    assert after_computed - computed < 0.1e9 < after_free - free


def test_what_others_take_of_the_cpu_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "schedstat"
    monkeypatch.setattr(busy_time, "SCHEDULED", told)
    monkeypatch.setattr(time, "perf_counter_ns", iter((7_000_000_000, 11_000_000_000)).__next__)
    told.write_text("5000 1000000000 3\n")
    free = spent_ns()[1]
    told.write_text("6000 4000000000 4\n")
    assert spent_ns()[1] - free == 1_000_000_000


def test_a_kernel_that_does_not_tell_leaves_all_time_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_time, "SCHEDULED", tmp_path / "none")
    before = time.perf_counter_ns()
    assert before <= spent_ns()[1] <= time.perf_counter_ns()
