import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders import a_gpu_profile, a_profile, a_run

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.power_limit import PowerLimit
from advisor.tuners.mechanisms.power import PowerError, put_back_at_exit
from advisor.tuners.space.space import build_space

# A driver that keeps the limits of two GPUs in files beside it; GPU-1 belongs to somebody else.
DRIVER = """
from pathlib import Path

FOLDER = Path(__file__).parent


class NVMLError(Exception):
    pass


def nvmlInit():
    if (FOLDER / "absent").exists():
        raise NVMLError("Driver Not Loaded")


def nvmlShutdown():
    pass


def nvmlDeviceGetCount():
    return len(list(FOLDER.glob("GPU-*")))


def nvmlDeviceGetHandleByIndex(index):
    return nvmlDeviceGetHandleByUUID(f"GPU-{index}")


def nvmlDeviceGetHandleByUUID(uuid):
    return FOLDER / uuid


def nvmlDeviceGetUUID(handle):
    return handle.name


def nvmlDeviceGetPowerManagementLimit(handle):
    return int(handle.read_text())


def nvmlDeviceGetPowerManagementLimitConstraints(handle):
    return [200000, 700000]


def nvmlDeviceSetPowerManagementLimit(handle, limit):
    if handle.name == "GPU-1":
        raise NVMLError("Insufficient Permissions")
    handle.write_text(str(limit))
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pynvml.py").write_text(DRIVER)
    for index in (0, 1):
        (tmp_path / f"GPU-{index}").write_text("600000")
    spec = importlib.util.spec_from_file_location("pynvml", tmp_path / "pynvml.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    return tmp_path


def test_equal_steps_between_the_limits_of_the_device_are_tried(driver: Path) -> None:
    assert PowerLimit().choices(a_gpu_profile()) == [600, 700, 575, 450, 325, 200]


def test_asking_leaves_the_limit_as_it_was(driver: Path) -> None:
    PowerLimit().choices(a_gpu_profile())
    assert (driver / "GPU-0").read_text() == "600000"


@pytest.mark.parametrize("visible", ["1", "GPU-1"])
def test_without_the_right_to_set_it_is_refused(
    driver: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(Refused, match="cannot be set: Insufficient Permissions"):
        PowerLimit().choices(a_gpu_profile())


def test_several_visible_devices_are_refused(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with pytest.raises(Refused, match="2 GPUs are visible"):
        PowerLimit().choices(a_gpu_profile())


def test_without_a_driver_it_is_refused(driver: Path) -> None:
    (driver / "absent").touch()
    with pytest.raises(Refused, match="no NVIDIA driver answers: Driver Not Loaded"):
        PowerLimit().present(a_gpu_profile())


def test_a_model_on_the_cpu_is_left_alone() -> None:
    with pytest.raises(Refused, match="on the CPU"):
        PowerLimit().choices(a_profile())


def test_a_named_limit_must_be_one_that_the_device_allows(driver: Path) -> None:
    PowerLimit().check(500, a_gpu_profile())
    with pytest.raises(Refused, match="allows 200 to 700 W"):
        PowerLimit().check(100, a_gpu_profile())


def test_it_is_tried_only_when_named(driver: Path) -> None:
    knobs = {"power_limit": PowerLimit()}
    assert build_space(knobs, a_gpu_profile()).choices == {}
    assert build_space(knobs, a_gpu_profile(), named={"power_limit": [700]}).choices == {
        "power_limit": [600, 700]
    }


def test_it_is_compared_by_processes_that_run_one_after_the_other() -> None:
    assert PowerLimit.loading and not PowerLimit.live


def test_a_trial_runs_at_its_limit_and_the_program_is_told_where_it_may_not(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knob = PowerLimit()
    run = a_run({"power_limit": 600}, power_limit=knob)
    run.configure({"power_limit": 325})
    run.process()
    try:
        assert (driver / "GPU-0").read_text() == "325000"
        assert (run.unanswered(), run.refused) == ([], {})
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        run.process()
        assert run.refused == {"power_limit": "Insufficient Permissions"}
    finally:
        assert knob._guard is not None
        knob._guard.kill()
        knob._guard.communicate()


def test_the_limit_is_put_back_when_the_process_has_been_killed(driver: Path) -> None:

    code = (
        "import os, signal\n"
        "from advisor.tuners.mechanisms.power import put_back_at_exit, set_power_limit\n"
        "guard = put_back_at_exit('GPU-0', 600)\n"
        "set_power_limit('GPU-0', 325)\n"
        "os.kill(guard.pid, signal.SIGTERM)\n"
        "print(open(os.environ['LIMIT']).read(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LIMIT": str(driver / "GPU-0")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (-signal.SIGKILL, "325000")
    ends = time.monotonic() + 5
    while (driver / "GPU-0").read_text() != "600000" and time.monotonic() < ends:
        time.sleep(0.01)
    assert (driver / "GPU-0").read_text() == "600000"


def test_a_guard_that_cannot_start_is_told(driver: Path) -> None:

    (driver / "absent").touch()
    with pytest.raises(PowerError, match="could not be started"):
        put_back_at_exit("GPU-0", 600)
