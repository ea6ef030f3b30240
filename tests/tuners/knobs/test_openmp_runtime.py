import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import a_gpu_profile, a_machine, a_profile

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import openmp_runtime
from advisor.tuners.knobs.openmp_runtime import OpenmpRuntime


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No such library, and nothing preloaded."""
    monkeypatch.setattr(openmp_runtime, "FOLDERS", ())
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def library(nowhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of torch's own runtime under the name of the other one."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    copies = [*folder.glob("lib/libgomp*.so*"), *folder.parent.glob("torch.libs/libgomp*.so*")]
    if not copies:
        pytest.skip("this torch brings no OpenMP library")
    shutil.copy(copies[0], tmp_path / "libiomp5.so")
    monkeypatch.setattr(openmp_runtime, "FOLDERS", (tmp_path,))
    return tmp_path / "libiomp5.so"


def processed(value: str, environment: dict[str, str]) -> str:
    """The last line of what a process with these variables says about a value."""
    code = (
        "from advisor.tuners.knobs.openmp_runtime import OpenmpRuntime\n"
        f"OpenmpRuntime().process({value!r})\n"
        "print('applied')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip().splitlines()[-1]


def test_where_the_library_is_found_it_is_offered(library: Path) -> None:
    assert OpenmpRuntime().choices(a_profile()) == ["libgomp", "libiomp5"]


def test_a_folder_that_the_loader_searches_counts_too(
    nowhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libiomp5.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert OpenmpRuntime().choices(a_profile()) == ["libgomp", "libiomp5"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "libiomp5.so was not found"),
        (a_gpu_profile(), "on the GPU"),
        (a_profile(a_machine(platform="Darwin arm64")), "on Linux only"),
    ],
)
def test_elsewhere_the_reason_is_said(nowhere: None, profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        OpenmpRuntime().choices(profile)


def test_a_program_that_preloads_it_is_offered_to_go_without(
    nowhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/libjemalloc.so /lib/libiomp5.so")
    assert OpenmpRuntime().choices(a_profile()) == ["libiomp5", "libgomp"]
    assert OpenmpRuntime().environment("libgomp") == {"LD_PRELOAD": "/lib/libjemalloc.so"}


def test_what_is_preloaded_already_stays(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/libjemalloc.so")
    assert OpenmpRuntime().environment("libiomp5") == {
        "LD_PRELOAD": f"{library}:/lib/libjemalloc.so",
        "KMP_BLOCKTIME": "1",
    }


def test_a_time_to_spin_that_the_user_set_is_kept(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KMP_BLOCKTIME", "0")
    assert OpenmpRuntime().environment("libiomp5")["KMP_BLOCKTIME"] == "0"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are preloaded on Linux only")
def test_the_process_that_trains_looks_whether_it_is_loaded(library: Path) -> None:
    environment = OpenmpRuntime().environment("libiomp5")
    assert processed("libiomp5", environment) == "applied"
    assert "libiomp5 is not loaded" in processed("libiomp5", {})
    assert "libiomp5 is still loaded" in processed("libgomp", environment)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are preloaded on Linux only")
def test_a_link_to_a_file_of_another_name_counts_as_the_library(library: Path) -> None:
    real = library.rename(library.with_name("libomp.so.5"))
    library.symlink_to(real)
    assert processed("libiomp5", OpenmpRuntime().environment("libiomp5")) == "applied"


def test_the_variables_to_set_are_shown_also_where_it_is_not_found(nowhere: None) -> None:
    change = OpenmpRuntime().change("libiomp5")
    assert change.environment == {"LD_PRELOAD": "libiomp5.so", "KMP_BLOCKTIME": "1"}
