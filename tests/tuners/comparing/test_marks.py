"""What stays disturbed although it was repeated is kept, and says so."""

import os
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from advisor.tuners.comparing.excluded import BESIDE_ONE, HELD_DOWN, disturbance, marks
from advisor.tuners.search.outcome_check import check_outcome
from advisor.tuners.search.race import _mark
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.clocks import held_down
from advisor.tuners.trial.messages import Compiled, Slot, TrialOutcome

QUIET = [Slot((0.1,) * 5)]
LOADED = [Slot((0.1,) * 5, other_cpu_s=0.5)]
SLOWED = [Slot((0.1,) * 5, flags=(("throttled", 5),))]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Put a driver in place of NVML that tells these bits, or that does not answer."""
    properties = SimpleNamespace(uuid="0000")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)

    def put(bits: int | None) -> None:
        nvml: Any = ModuleType("pynvml")
        nvml.NVMLError = type("NVMLError", (Exception,), {})

        def init() -> None:
            if bits is None:
                raise nvml.NVMLError("no driver")

        nvml.nvmlInit, nvml.nvmlShutdown = init, lambda: None
        nvml.nvmlDeviceGetHandleByUUID = {"GPU-0000": "handle"}.__getitem__
        nvml.nvmlDeviceGetCurrentClocksEventReasons = {"handle": bits}.__getitem__
        nvml.nvmlClocksEventReasonSwThermalSlowdown = 32
        nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 128
        monkeypatch.setitem(sys.modules, "pynvml", nvml)

    return put


def test_clocks_that_are_held_down_are_read_from_the_driver(driver: Callable[[int | None], None]) -> None:
    driver(32 | 4)  # heat, and a power cap, which is no fault
    assert held_down() == ("heat",)
    driver(32 | 128)
    assert held_down() == ("heat", "the power supply")
    driver(4 | 1)
    assert held_down() == ()


def test_without_a_driver_nothing_is_said_of_clocks(driver: Callable[[int | None], None]) -> None:
    driver(None)
    assert held_down() == ()


def test_a_slower_clock_under_one_arm_is_measured_again() -> None:
    assert disturbance(QUIET, SLOWED, threads=1) == "throttled"
    assert disturbance(SLOWED, SLOWED, threads=1) is None


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (QUIET, QUIET, []),
        (QUIET, LOADED, [BESIDE_ONE]),
        (LOADED, LOADED, []),
        (QUIET, SLOWED, [HELD_DOWN]),
        (SLOWED, SLOWED, [HELD_DOWN]),
    ],
    ids=["quiet", "load beside one", "load beside both", "one held down", "both held down"],
)
def test_a_trial_that_stays_disturbed_is_kept_and_marked(
    first: list[Slot], second: list[Slot], told: list[str]
) -> None:
    assert marks(first, second) == told
    record = TrialRecord(1, Configuration({}), "screen")
    _mark(record, first, second)
    _mark(record, first, second)
    assert record.marks == told


def test_threads_that_collapse_on_both_sides_are_told() -> None:
    room = len(os.sched_getaffinity(0))
    collapsed = [Slot((0.1,) * 5, cpu_s=0.4 * room, other_cpu_s=0.3 * room)]
    alone = [Slot((0.1,) * 5, cpu_s=0.4 * room)]
    (mark,) = marks(collapsed, collapsed, threads=2 * room)
    assert mark.startswith(f"thread_collapse: {2 * room} threads had")
    assert marks(alone, alone, threads=2 * room) == marks(collapsed, collapsed, threads=1) == []


@pytest.mark.parametrize(
    ("breaks", "told"), [(0, []), (1, ["1 graph break, 2 graphs"]), (3, ["3 graph breaks, 4 graphs"])]
)
def test_a_trial_that_compiles_says_where_it_is_no_full_graph(breaks: int, told: list[str]) -> None:
    compiled = Compiled(compiled=1, graphs=breaks + 1, breaks=breaks)
    outcome = TrialOutcome("stopped", compile=compiled)
    record = TrialRecord(1, Configuration({"execution": "compile"}), "screen", outcome=outcome)
    check_outcome(record)
    check_outcome(record)  # of its next process
    assert record.marks == told


def compiled_again(times: int, **config: Any) -> TrialRecord:
    outcome = TrialOutcome("stopped", compile=Compiled(compiled=1, recompiles=times))
    return TrialRecord(1, Configuration(config), "screen", outcome=outcome)


def test_a_trial_that_goes_on_recompiling_is_not_ranked() -> None:
    settled = compiled_again(3, execution="compile")
    check_outcome(settled)
    assert settled.marks == ["recompiled 3 times after warm-up"]
    with pytest.raises(TrialFailed, match="recompiled 4 times after warm-up: shapes or numbers") as raised:
        check_outcome(compiled_again(4, execution="compile"))
    assert raised.value.failure.cause == "compile_fell_back"


def test_a_program_that_recompiles_by_itself_is_tuned_all_the_same() -> None:
    record = compiled_again(4, amp="bf16")
    check_outcome(record)
    assert record.marks == ["recompiled 4 times after warm-up"]


@pytest.mark.parametrize(
    ("host", "device", "cause"),
    [(300, None, "oom_host"), (100, 300, "oom_device"), (300, 100, None), (100, None, None)],
)
def test_a_trial_that_uses_more_memory_than_is_allowed_is_not_ranked(
    host: int, device: int | None, cause: str | None
) -> None:
    on_device = device * 2**20 if device else None
    outcome = TrialOutcome("stopped", peak_bytes=host * 2**20, device_peak_bytes=on_device)
    record = TrialRecord(1, Configuration({}), "screen", outcome=outcome)
    check_outcome(record)
    if cause is None:
        return check_outcome(record, 200 * 2**20)
    with pytest.raises(TrialFailed, match="300 MiB exceeds 200 MiB") as raised:
        check_outcome(record, 200 * 2**20)
    assert raised.value.failure.cause == cause
    return None
