"""Files of the user's are after a run what they were, wherever the program writes and whoever runs it."""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from supervised import until

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.usefixtures("no_process_remains")]
SOMEBODY = 54321  # not 65534, by which a namespace shows every other user
HOMES = Path("/srv")  # not below the temporary folder; a folder that root alone may write
SHARED = Path("/dev/shm")  # a file system of its own, where none can be mounted
LIMIT_S = 500
FORBID = """
for kind in user mnt; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done
exec setpriv --ambient-caps=-all --inh-caps=-all "$@"
"""
FORBIDDEN = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-ec", FORBID, "sh"]
"""A command after these words can make no namespace, as in most containers."""
DATABASE = "import sqlite3; sqlite3.connect('runs.db').execute('create table a (b)')"
FILES = ("log.txt", "best.txt", "old.txt", "kept.txt", "runs.db")
PROGRAM = """
import os, shutil, signal, sqlite3, subprocess, sys, tempfile
from pathlib import Path
import torch

stop = False
def ask_to_stop(number, frame):
    global stop
    stop = True
signal.signal(signal.SIGTERM, ask_to_stop)
absolute, second = map(Path, sys.argv[1:])
home, temporary = Path.home() / "runs", Path(tempfile.gettempdir()) / "runs"
folders = [home, temporary, absolute, second]
for folder in folders:
    folder.mkdir(exist_ok=True)
os.chdir(home)

class Cached(torch.utils.data.Dataset):
    def __len__(self):
        return 800
    def __getitem__(self, index):
        if index < 8:  # workers write, too
            for folder in folders:
                (folder / f"item-{index}.txt").write_text(str(os.getpid()))
        return torch.full((64,), index / 800)

torch.manual_seed(0)
loader = torch.utils.data.DataLoader(Cached(), batch_size=16, shuffle=True)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
epoch, last = 0, Path("last.pt")
if last.exists():
    saved = torch.load(last, weights_only=True)
    model.load_state_dict(saved["model"])
    epoch = saved["epoch"]
print("starts at", epoch, flush=True)
while epoch < 2000 and not stop:
    for rows in loader:
        optimizer.zero_grad()
        model(rows).pow(2).mean().backward()
        optimizer.step()
    epoch += 1
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt.part")
    os.replace("last.pt.part", "last.pt")
    for folder in folders:
        with open(folder / "log.txt", "a") as log:
            log.write(f"{epoch}\\n")
        (folder / "best.txt").write_text(str(epoch))
        (folder / "old.txt").unlink(missing_ok=True)
        (folder / "old.txt").write_text("made anew")
        (folder / "made" / "below").mkdir(parents=True, exist_ok=True)
        (folder / "made" / "below" / f"{epoch}.txt").write_text("new")
        if (folder / "kept.txt").exists():
            os.rename(folder / "kept.txt", folder / "renamed.txt")
            subprocess.run(["sh", "-c", "echo more >> renamed.txt"], cwd=folder, check=True)
            shutil.move(folder / "renamed.txt", second / f"from-{folders.index(folder)}.txt")
        with sqlite3.connect(folder / "runs.db") as database:
            database.execute("pragma journal_mode=wal")
            database.execute("create table if not exists epochs (number int)")
            database.execute("insert into epochs values (?)", (epoch,))
"""


@dataclass
class Place:
    """Where a program is run, and the folders in which it writes.

    Attributes:
        top: Holds the home folder, with the program in ``work`` below it.
        temporary: The temporary folder.
        second: On a file system of its own.
        absolute: Elsewhere.
        user: Who runs it; ``None`` for whoever runs the tests.
    """

    top: Path
    temporary: Path
    second: Path
    absolute: Path
    user: int | None
    before: Sequence[str] = ()

    @property
    def home(self) -> Path:
        """The home folder."""
        return self.top / "home"

    @property
    def work(self) -> Path:
        """The program's folder, in which reports and studies are written as well."""
        return self.home / "work"

    @property
    def written(self) -> list[Path]:
        """The folders in which the program writes."""
        return [self.home / "runs", self.temporary / "runs", self.absolute, self.second]

    def digests(self) -> dict[str, tuple[int, int, int, str]]:
        """Of every file and folder of the user's: its owner, mode, modification time and digest."""
        tops, ours = (self.home, *self.written[1:], self.temporary), (".advisor", "advisor-report")
        seen = {}
        for top in tops:
            for path in (top, *sorted(top.rglob("*"))):
                if path.is_relative_to(self.work) and (
                    path == self.work or path.relative_to(self.work).parts[0] in ours
                ):
                    continue
                status = path.lstat()
                is_file = stat.S_ISREG(status.st_mode)
                changed = status.st_mtime_ns if is_file else 0
                digest = hashlib.sha256(path.read_bytes()).hexdigest() if is_file else ""
                seen[str(path)] = (status.st_uid, status.st_mode, changed, digest)
        return seen

    @property
    def errors(self) -> Path:
        """Where progress may go."""
        return self.top / "progress.txt"

    def start(self, *words: str, errors: IO[str] | int = subprocess.PIPE) -> "subprocess.Popen[str]":
        """A command of advisor, as this user, for the program."""
        environment = {
            **os.environ, "HOME": str(self.home), "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1",
            "ADVISOR_LOCKS": str(self.top / "locks"),
        }  # fmt: skip
        user = self.user
        become = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        command = [*become, *self.before, sys.executable, "-m", "advisor", *words]
        return subprocess.Popen(
            [*command, "--", str(self.absolute), str(self.second)], cwd=self.work, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str]:
        """How a command of advisor ends, and what it says."""
        process = self.start(*words)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out + err

    def tried(self) -> list[object]:
        """What ``tune`` set in its trials beside the baseline."""
        result = json.loads((self.work / "advisor-report" / "result.json").read_text())
        return [trial["config"] for trial in result["trials"] if trial["stage"] != "baseline"]

    def starts(self) -> set[str]:
        """How the launches of ``tune`` began."""
        logs = [path.read_text() for path in (self.work / ".advisor").rglob("stdout.log")]
        return {line for text in logs for line in text.splitlines() if line.startswith("starts at")}


TUNE = ("tune", "train.py", "--budget", "60s", "--knob", "num_workers=1", "--knob", "set_to_none")


@pytest.fixture(params=["present user", "ordinary user"])
def user(request: pytest.FixtureRequest) -> int | None:
    """Who runs it; ``None`` for whoever runs the tests."""
    if request.param == "present user":
        return None
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming another user needs root and setpriv")
    python = Path(sys.executable).resolve()
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in python.parents):
        pytest.skip(f"other users may not run {python}")
    return SOMEBODY


@pytest.fixture
def second(user: int | None) -> Iterator[Path]:
    """A file system of its own, mounted from a file where that is allowed."""
    if os.geteuid() != 0 or not os.access(HOMES, os.W_OK) or shutil.which("mkfs.ext4") is None:
        folder = Path(tempfile.mkdtemp(prefix="harmless-", dir=SHARED))
        yield folder
        shutil.rmtree(folder)
        return
    top = Path(tempfile.mkdtemp(prefix="harmless-disk-", dir=HOMES))
    top.chmod(0o755)
    (top / "mounted").mkdir()
    with (top / "image").open("wb") as image:
        image.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", top / "image"], check=True)
    try:
        subprocess.run(["mount", "-o", "loop", top / "image", top / "mounted"], check=True)
    except subprocess.CalledProcessError:
        subprocess.run(["mount", "-t", "tmpfs", "none", top / "mounted"], check=True)
    (top / "mounted" / "runs").mkdir()
    yield top / "mounted" / "runs"
    subprocess.run(["umount", top / "mounted"], check=True)
    shutil.rmtree(top)


@pytest.fixture
def place(user: int | None, second: Path) -> Iterator[Place]:
    """A home, a temporary folder and others, each with files of the user's."""
    elsewhere = HOMES if os.access(HOMES, os.W_OK) else None
    top, absolute = (Path(tempfile.mkdtemp(prefix="harmless-", dir=elsewhere)) for _ in range(2))
    place = Place(top, Path(tempfile.mkdtemp(prefix="harmless-")), second, absolute, user)
    for folder in (place.work, top / "locks", *place.written):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in place.written:
        for name in FILES[:-1]:
            (folder / name).write_text("the user's")
        subprocess.run([sys.executable, "-c", DATABASE], cwd=folder, check=True)
    (place.work / "train.py").write_text(PROGRAM)
    if user is not None:
        for one in (top, place.temporary, absolute, second):
            for path in (one, *one.rglob("*")):
                os.chown(path, user, user, follow_symlinks=False)
    yield place
    for one in (top, place.temporary, absolute):
        shutil.rmtree(one)


def test_tuning_changes_no_file_of_the_users_and_each_launch_starts_alike(place: Place) -> None:
    before = place.digests()
    assert len([name for name in before if name.endswith(FILES)]) == len(FILES) * 4
    code, said = place.run(*TUNE)
    assert code == 0, said
    assert place.digests() == before
    assert place.tried()
    assert place.starts() == {"starts at 0"}


def test_profile_and_check_change_no_file_of_the_users(place: Place) -> None:
    before = place.digests()
    code, said = place.run("profile", "train.py", "--budget", "30s")
    assert code == 0, said
    assert place.digests() == before
    code, said = place.run("check", "train.py", "--against", "advisor-report", "--budget", "60s")
    assert code in (0, 1), said  # the gate may fail on a busy machine
    assert place.digests() == before


def test_control_c_while_a_trial_runs_changes_no_file_of_the_users(place: Place) -> None:
    before = place.digests()
    with place.errors.open("w") as errors:
        process = place.start(*TUNE, errors=errors)
    until(lambda: " to try" in place.errors.read_text(), LIMIT_S)  # the search begins
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGINT, out + place.errors.read_text()
    assert place.digests() == before


def forbid(place: Place) -> None:
    """Have its commands run where no namespace can be made."""
    tried = subprocess.run([*FORBIDDEN, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"namespaces cannot be forbidden here: {tried.stderr}")
    place.before = FORBIDDEN


@pytest.mark.parametrize(
    "command", [TUNE, ("profile", "train.py", "--budget", "30s")], ids=["tune", "profile"]
)
def test_where_nothing_can_be_kept_apart_the_first_launch_ends_before_it_changes_a_file(
    place: Place, command: tuple[str, ...]
) -> None:
    forbid(place)
    before = place.digests()
    code, said = place.run(*command)
    assert place.digests() == before
    assert code == 2 and "the program would change a file that exists: " in said, said
    assert "--allow-writes" in said


def test_where_nothing_can_be_kept_apart_what_launches_made_is_removed(place: Place) -> None:
    forbid(place)
    for folder in place.written:
        for name in FILES:
            (folder / name).unlink()
    before = place.digests()
    code, said = place.run(*TUNE)
    assert code == 0, said
    assert place.digests() == before
    assert place.starts() == {"starts at 0"}
