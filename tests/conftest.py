"""What tests share: no process is left behind, nothing was compiled before, no other run has the device."""

import gc
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from postgresql import MISSING, NOT_INSTALLED, a_server
from supervised import MARK, marked, until
from warm import Warm
from warm_trials import WarmSubprocess

from advisor.cli import AVAILABLE
from advisor.stages.device_lock import FOLDER_VARIABLE
from advisor.tuners.launching import launch, zygote
from advisor.tuners.search import asking

LIGHT = (
    *(f"advisor.cli.commands.{name}" for name in AVAILABLE),
    "advisor.report.files",
    "advisor.storage.store",
)

# Half of the time that collecting takes is pytest rewriting the asserts of 600 files: it keeps what it made.
WRITES_NO_BYTECODE = sys.dont_write_bytecode
sys.dont_write_bytecode = False

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # a machine that does something else as well is slow, which is no fault


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait for real processes come first: what is left at the end is short, and shared."""
    waiting = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in waiting)


def pytest_collection_finish() -> None:
    """What tests import from folders of their own leaves nothing there."""
    sys.dont_write_bytecode = WRITES_NO_BYTECODE


@pytest.fixture
def no_process_remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The mark of every process that the test starts; none may be left at its end."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    left = [(process.pid, process.cmdline()) for process in marked(mark)]
    for pid, _ in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test starts computes with one thread, whatever this process does."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in a folder of its own, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    return path


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, and where temporary folders are made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def quick_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches ask a tree of Parzen estimators: a Gaussian process thinks for half a second."""
    monkeypatch.setattr(asking, "GP_TRIALS", 0)


@pytest.fixture(scope="session")
def _warm_server() -> Iterator[Warm]:
    server = Warm()
    yield server
    server.close()


@pytest.fixture
def warm(_warm_server: Warm) -> Iterator[Warm]:
    """Starts Python children that have torch and advisor loaded; they end with the test."""
    yield _warm_server
    _warm_server.end_children()


@pytest.fixture(scope="session")
def _light_server() -> Iterator[Warm]:
    server = Warm(LIGHT)
    yield server
    server.close()


@pytest.fixture
def light(_light_server: Warm) -> Iterator[Warm]:
    """Starts children that have the command line loaded, and nothing that is slow to load."""
    yield _light_server
    _light_server.end_children()


@pytest.fixture
def warm_trials(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launchers fork trials from the warm server; none may be left at the end of the test."""
    for module in (launch, zygote):
        monkeypatch.setattr(module, "subprocess", WarmSubprocess(warm))
    yield
    until(lambda: not warm.remaining())


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server; each test makes a database of its own there."""
    if MISSING:
        pytest.skip(NOT_INSTALLED)
    with a_server() as running:
        yield running.get_uri()


@pytest.fixture
def own_server() -> Iterator[Any]:
    """A PostgreSQL server for one test, which may mistreat it."""
    if MISSING:
        pytest.skip(NOT_INSTALLED)
    with a_server() as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def _locks_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Locks of devices for fixtures that outlive a test; other test runs on this machine have theirs."""
    before = os.environ.get(FOLDER_VARIABLE)
    folder = tmp_path_factory.mktemp("locks")
    os.environ[FOLDER_VARIABLE] = str(folder)
    yield folder
    if before is None:
        del os.environ[FOLDER_VARIABLE]
    else:
        os.environ[FOLDER_VARIABLE] = before


@pytest.fixture(autouse=True)
def device_locks(monkeypatch: pytest.MonkeyPatch, _locks_of_this_session: Path) -> Path:
    """The folder for locks of devices of one test: what an earlier test left may still be ending."""
    folder = _locks_of_this_session / uuid.uuid4().hex
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture(scope="module", autouse=True)
def _only_its_own_objects() -> None:
    """The hooks look at every object that the collector knows: 0.1 s a look at all that is imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _nothing_compiled_before() -> None:
    """Fixtures of a whole module are made before those of its first test."""
    _forget_compilations()


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    _forget_compilations()


@pytest.fixture(autouse=True)
def _migrations_of_optuna_are_read_once() -> None:
    """For each new storage Optuna compiles all of them, which takes longer than most tests."""
    storage: Any = sys.modules.get("optuna.storages._rdb.storage")
    if storage is not None:
        make, kept = storage._VersionManager._create_alembic_script, list[Any]()

        def once(manager: object) -> Any:
            if not kept:
                kept.append(make(manager))
            return kept[0]

        if make.__name__ != once.__name__:
            storage._VersionManager._create_alembic_script = once


def _forget_compilations() -> None:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.counters.clear()
