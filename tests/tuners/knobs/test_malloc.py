import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_gpu_profile, a_machine, a_profile, a_run

from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import malloc
from advisor.tuners.knobs.malloc import MOST_FAULT_MS, TUNED, Malloc

FAULTS = (
    "import resource\n"
    "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
    "for _ in range(8):\n"
    "    bytearray(48 << 20)\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
)
LOOK = "from advisor.tuners.knobs.malloc import Malloc\nMalloc().process('jemalloc')\n"


@pytest.fixture(autouse=True)
def only_jemalloc_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "_library", {"jemalloc": "/opt/libjemalloc.so.2"}.get)
    for name in [name for name in os.environ if "MALLOC" in name or name == "LD_PRELOAD"]:
        monkeypatch.delenv(name)


def run_python(code: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_installed_is_tried() -> None:
    assert Malloc().choices(a_profile()) == ["libc", "libc-tuned", "jemalloc"]


@pytest.mark.parametrize(
    ("value", "profile", "reason"),
    [
        ("tcmalloc", a_profile(), "tcmalloc was not found on this machine"),
        ("jemalloc", a_profile(a_machine(platform="Darwin arm64")), "on Linux only"),
    ],
)
def test_what_cannot_be_loaded_is_refused(value: str, profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Malloc().check(value, profile)


def test_memory_of_a_gpu_is_no_business_of_malloc() -> None:
    with pytest.raises(Refused, match="see alloc_conf"):
        Malloc().choices(a_gpu_profile())


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_TRIM_THRESHOLD_", "1"), ("LD_PRELOAD", "/x/libtcmalloc.so"),
     ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1")],
)  # fmt: skip
def test_an_allocator_that_the_user_has_chosen_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Refused, match=f"chosen already, by {name}"):
        Malloc().present(a_profile())


def test_what_is_preloaded_already_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/x/libiomp5.so")
    assert Malloc().environment("jemalloc") == {"LD_PRELOAD": "/opt/libjemalloc.so.2:/x/libiomp5.so"}
    assert Malloc().environment("libc") == {}


def test_a_library_is_found_in_the_usual_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    (tmp_path / "libtcmalloc_minimal.so.4").touch()
    monkeypatch.setattr(malloc, "FOLDERS", (tmp_path / "nowhere", tmp_path))
    assert malloc._library.__wrapped__("tcmalloc") == str(tmp_path / "libtcmalloc_minimal.so.4")


def test_a_process_without_the_variables_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(malloc=Malloc())
    run.configure({"malloc": "libc-tuned"})
    run.process()
    assert "did not reach the process" in run.refused["malloc"]
    for name, limit in TUNED.items():
        monkeypatch.setenv(name, limit)
    again = a_run(malloc=Malloc())
    again.configure({"malloc": "libc-tuned"})
    again.process()
    assert (again.applied, again.refused) == ({"malloc"}, {})


@pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD")
def test_a_process_knows_whether_the_library_was_loaded(tmp_path: Path) -> None:
    mapped = Path("/proc/self/maps").read_text().split()
    some_library = next(path for path in mapped if "/libm.so" in path or "/libm-" in path)
    library = shutil.copy(some_library, tmp_path / "libjemalloc.so.2")
    assert run_python(LOOK, LD_PRELOAD=str(library)).returncode == 0
    assert "jemalloc was not loaded into the process" in run_python(LOOK).stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_tuned_limits_keep_large_blocks_in_the_process() -> None:
    plain, tuned = run_python(FAULTS), run_python(FAULTS, **Malloc().environment("libc-tuned"))
    assert int(tuned.stdout) < int(plain.stdout) / 3


def test_what_the_user_writes_are_variables() -> None:
    assert Malloc().change("libc-tuned").environment == TUNED
    assert Malloc().change("libc").environment == {}


def test_it_can_take_away_no_more_than_page_faults_and_the_system_do() -> None:
    profile = a_profile(phases_ms={"forward": 8.0})
    assert profile.phases is not None
    some = 0.2 * profile.phases.step_ms / MOST_FAULT_MS
    assert Malloc().ceiling(profile) is None

    def ceiling(faults: float, system_share: float | None) -> float | None:
        memory = MemoryUse(2**30, minor_faults_per_step=faults, system_share=system_share)
        return Malloc().ceiling(replace(profile, memory=memory))

    assert ceiling(some, 0.05) == pytest.approx(0.05) and ceiling(some, 1.0) == pytest.approx(0.2)
    assert ceiling(0.0, 0.05) == 0.0
