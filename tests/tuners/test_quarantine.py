"""Where a process cannot be ended, its GPU is left out, and the others are measured on, if there are any."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from advisor.profiles.machine import Gpu
from advisor.tuners.failures import TrialFailed
from advisor.tuners.launch import Launcher, places
from advisor.tuners.quarantine import HELD_BYTES, Quarantined, free_of, used_bytes
from advisor.tuners.spec import Target, TrialSpec

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains"),
]
SCRIPT = """
import os
import torch
print("sees", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100000):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""
REST = 5 * 2**20  # bytes that a driver holds on a GPU that nobody uses
CONTEXT = 500 * 2**20


@pytest.mark.parametrize(
    ("before", "now", "free"),
    [
        ({"a": REST, "b": REST}, {"a": CONTEXT, "b": REST}, ("b",)),
        ({"a": REST, "b": REST}, {"a": REST, "b": REST + HELD_BYTES}, ("a",)),
        ({"a": REST, "b": REST, "c": REST}, {"b": REST, "c": REST + 1}, ("b", "c")),
        ({"a": REST, "b": REST}, {"a": REST, "b": REST}, ()),
        ({"a": REST, "b": REST}, {"a": CONTEXT, "b": CONTEXT}, ()),
        ({"a": REST, "b": REST}, {}, ()),
        ({"a": REST}, {"a": CONTEXT}, ()),
        ({}, {}, ()),
    ],
    ids=[
        "held",
        "just held",
        "one is gone",
        "nobody can tell",
        "all held",
        "all gone",
        "the only one",
        "none",
    ],
)
def test_what_is_measured_on_from_now_on(
    before: dict[str, int], now: dict[str, int], free: tuple[str, ...]
) -> None:
    assert free_of(before, now) == free


@dataclass
class Driver:
    """What a driver would say of GPUs, and what the launcher says of it."""

    used: dict[str, int] = field(default_factory=lambda: {"GPU-a": REST, "GPU-b": REST})
    told: list[str] = field(default_factory=list)
    moves: int = 0

    def __call__(self, uuids: Sequence[str]) -> dict[str, int]:
        return {uuid: self.used[uuid] for uuid in uuids}

    def moved(self) -> None:
        self.moves += 1


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def launcher(tmp_path: Path, driver: Driver) -> Iterator[Launcher]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (tmp_path / "study").mkdir()
    with Launcher(
        Target("script", str(script), cwd=str(tmp_path)),
        tmp_path / "study",
        device="cpu",
        gpus=("GPU-a", "GPU-b"),
        used=driver,
        warn=driver.told.append,
        moved=driver.moved,
        measures_on="GPU-a, GPU-b",
    ) as started:
        started.limits.start_s = 120
        yield started


def seen(launcher: Launcher) -> str:
    """The GPUs that a program sees."""
    session = launcher.start(1, {}, {})
    session.first_step()
    session.stop()
    return Path(session.folder, "stdout.log").read_text().split()[1]


def test_the_run_goes_on_with_the_gpu_that_is_left(
    launcher: Launcher, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert seen(launcher) == "None"
    beside = launcher.start(1, {}, {})
    beside.first_step()
    driver.used["GPU-a"] = CONTEXT
    launcher.quarantine(1)
    assert not beside.alive
    (told,) = driver.told
    assert "1 process of a trial did not end" in told
    assert "GPU-a is left out; from now on everything is measured on GPU-b" in told
    assert driver.moves == 1
    assert seen(launcher) == "GPU-b"
    several: list[dict[str, int | str]] = [{"ranks": 2, "strategy": "ddp"}, {"strategy": "data_parallel"}]
    for config in several:
        with pytest.raises(TrialFailed, match="1 GPU is left") as refused:
            launcher.start(2, config, {})
        assert refused.value.failure.cause == "device_error"
    driver.used["GPU-b"] = CONTEXT
    launcher.quarantine(2)
    with pytest.raises(Quarantined, match="2 processes of a trial did not end"):
        launcher.start(3, {}, {})
    assert (len(driver.told), driver.moves) == (1, 1)


def test_where_nobody_can_tell_which_gpu_is_held_the_run_ends(launcher: Launcher, driver: Driver) -> None:
    launcher.quarantine(1)
    with pytest.raises(Quarantined, match="nothing more is measured on GPU-a, GPU-b"):
        launcher.start(1, {}, {})
    assert driver.told == []


def test_ranks_stand_on_the_gpus_that_there_are(tmp_path: Path) -> None:
    spec = TrialSpec(1, Target("script", "train.py"), str(tmp_path))
    assert [place.device for place in places(spec, 2, 0, 2)] == ["cuda:0", "cuda:1"]
    assert [place.device for place in places(spec, 2, 0, 0)] == ["cpu", "cpu"]


def test_only_gpus_of_one_kind_stand_for_one_another() -> None:
    from advisor.launching import _alike

    first, second = (Gpu("H100", f"GPU-{name}", 80 * 2**30, (9, 0)) for name in "ab")
    other = Gpu("A100", "GPU-c", 80 * 2**30, (8, 0))
    assert _alike(("GPU-a", "GPU-b"), (first, second, other)) == ("GPU-a", "GPU-b")
    assert _alike(("GPU-a", "GPU-c"), (first, second, other)) == ()
    assert _alike(("cpu-00000", "cpu-00001"), ()) == ()


def test_memory_in_use_is_read_from_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml: Any = ModuleType("pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})

    def handle(uuid: str) -> str:
        if uuid == "GPU-lost":
            raise nvml.NVMLError("lost")
        return uuid

    memory = type("Memory", (), {"used": CONTEXT})
    nvml.nvmlInit, nvml.nvmlShutdown = lambda: None, lambda: None
    nvml.nvmlDeviceGetHandleByUUID, nvml.nvmlDeviceGetMemoryInfo = handle, lambda one: memory
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert used_bytes(("GPU-a", "GPU-lost")) == {"GPU-a": CONTEXT}
    assert used_bytes(()) == {}
