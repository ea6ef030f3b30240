import time
from pathlib import Path

import pytest

from advisor.profiles.hooks import busy_time
from advisor.profiles.hooks.busy_time import busy_ns


def test_a_thread_that_sleeps_is_not_at_work() -> None:
    def at_work_ns() -> int:
        began = busy_ns()
        time.sleep(0.2)
        return busy_ns() - began

    assert any(at_work_ns() < 0.1e9 for _ in range(10))  # a busy machine lets it wait for its CPU


def test_a_thread_that_others_keep_from_its_cpu_is_ready_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "schedstat"
    monkeypatch.setattr(busy_time, "SCHEDULED", told)
    told.write_text("5000 1000000000 3\n")
    began = busy_ns()
    told.write_text("6000 4000000000 4\n")
    assert 3e9 <= busy_ns() - began < 3.1e9


def test_a_kernel_that_does_not_tell_leaves_the_cpu_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_time, "SCHEDULED", tmp_path / "none")
    assert busy_ns() <= time.process_time_ns()
