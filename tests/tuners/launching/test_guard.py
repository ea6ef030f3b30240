"""Where nothing isolates a trial, it ends before it changes a file that exists; what it made is taken out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.base.errors import UsageError
from advisor.stages.target_failures import target_error
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import Session
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.supervision.isolation import Coverage
from advisor.tuners.trial.spec import Guard, Target

pytestmark = pytest.mark.usefixtures("warm_trials")
WORKLOAD = """
import os
from pathlib import Path
import torch
from advisor.workloads.workload import Workload

def model():
    net = torch.nn.Linear(4, 2)
{body}
    return net

workload = Workload(
    model=model, dataset=lambda: torch.utils.data.TensorDataset(torch.ones(64, 4), torch.ones(64, 2)),
    loss=torch.nn.functional.mse_loss,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), batch_size=8,
)
"""
CREATES = """
    os.makedirs('runs/one', exist_ok=True)
    torch.save(net.state_dict(), 'runs/one/last.pt.part')
    os.replace('runs/one/last.pt.part', 'runs/one/last.pt')
    print(sorted(path.name for path in Path().rglob('*.pt')), flush=True)
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A folder with files of the user's."""
    (tmp_path / "study").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    (work / "last.pt").write_text("mine")
    (work / "log.txt").write_text("mine")
    yield work


def a_launcher(here: Path, body: str, *, allow: bool = False) -> Launcher:
    (here / "small.py").write_text(WORKLOAD.format(body=body))
    target = Target("workload", str(here / "small.py"), cwd=str(here))
    launcher = Launcher(target, here.parent / "study", device="cpu", scratch=here.parent / "scratch")
    launcher.allow_writes = allow
    return launcher


def stopped(launcher: Launcher) -> Session:
    """A trial of a few steps that was told to stop."""
    session = launcher.start(1, {}, {})
    assert isinstance(session, Session)
    session.first_step()
    session.stop()
    return session


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("    torch.save(net, 'last.pt')", "last.pt"),
        ("    torch.save(net, 'x.part'); os.replace('x.part', 'last.pt')", "last.pt"),
        ("    open('log.txt', 'a')", "log.txt"),
        ("    os.remove('log.txt')", "log.txt"),
        ("    import sqlite3; sqlite3.connect('file:log.txt?mode=rw', uri=True)", "log.txt"),
        ("    for i in range(1100): open(f'{i}', 'w')\n    open('log.txt', 'w')", "log.txt"),
    ],
    ids=["saved over", "replaced", "appended", "removed", "database", "after a thousand others"],
)
def test_a_trial_ends_before_it_changes_a_file_that_exists(here: Path, body: str, name: str) -> None:
    with a_launcher(here, body) as launcher:
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
    error = target_error(raised.value.failure, None)
    assert isinstance(error, UsageError) and error.exit_code == 2
    assert error.message == f"the program would change a file that exists: {here / name}"
    assert error.hint is not None and error.hint.startswith("`--allow-writes` if every launch may change it")
    applied = target_error(raised.value.failure, None, "apply")
    assert applied.hint is not None and applied.hint.startswith("a result of `advisor tune --allow-writes`")
    assert [(here / "last.pt").read_text(), (here / "log.txt").read_text()] == ["mine", "mine"]
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == [
        "last.pt",
        "log.txt",
        "small.py",
    ]


def test_the_next_trial_starts_without_what_one_made(here: Path) -> None:
    with a_launcher(here, CREATES) as launcher:
        logs = [(stopped(launcher).folder / "stdout.log").read_text() for _ in range(2)]
    assert logs == ["['last.pt', 'last.pt']\n"] * 2
    assert not (here / "runs").exists()


OTHERS = """
    import sqlite3
    os.makedirs('runs/one')
    open('runs/one/a', 'w').close()
    os.rename('runs', 'kept')
    database = sqlite3.connect('runs.db')
    database.execute('pragma journal_mode=wal')
    database.execute('create table a (b)')
    if os.fork() == 0:
        open('by child', 'w').close()
        os._exit(0)
    os.wait()
    open('by child', 'a').close()
    print(len(os.listdir()), flush=True)
"""


def test_what_a_trial_moved_and_its_databases_and_children_made_is_removed(here: Path) -> None:
    with a_launcher(here, OTHERS) as launcher:
        before = sorted(here.iterdir())
        logs = [(stopped(launcher).folder / "stdout.log").read_text() for _ in range(2)]
    assert logs[0] == logs[1]
    assert [path for path in sorted(here.iterdir()) if path.name != "__pycache__"] == before


def test_a_child_of_a_trial_changes_no_file_and_the_reason_is_told(here: Path) -> None:
    body = """
    class Logged(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, index):
            open('log.txt', 'a').close()
            return torch.ones(4)
    next(iter(torch.utils.data.DataLoader(Logged(), num_workers=1)))
"""
    with a_launcher(here, body) as launcher:
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
    error = target_error(raised.value.failure, None)
    assert error.message == f"the program would change a file that exists: {here / 'log.txt'}"


def test_what_the_user_allowed_is_written(here: Path) -> None:
    with a_launcher(here, "    torch.save(net, 'last.pt')", allow=True) as launcher:
        stopped(launcher)
    assert (here / "last.pt").read_bytes()[:2] == b"PK"


def test_what_is_isolated_may_be_written() -> None:
    guard = Guard(Coverage(("/home/me",), (("/home/me/usb", "no overlay"),)), (), "created")
    names = ("/home/me/x", "/home/me/usb/x", "/home/other/x")
    assert [guard.protects(Path(name)) for name in names] == [True, False, False]
