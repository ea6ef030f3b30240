"""Files of the user's are after a run what they were, wherever the program writes and whoever runs it."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.usefixtures("no_process_remains")]
SOMEBODY = 65534
SHARED = Path("/dev/shm")  # a file system of its own
PROGRAM = """
import os, signal, sys, tempfile, time
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
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step, last = 0, Path("last.pt")
if last.exists():
    saved = torch.load(last, weights_only=True)
    model.load_state_dict(saved["model"])
    step = saved["step"]
if step >= 100_000:
    sys.exit()
print("starts at", step, flush=True)
while step < 100_000 and not stop:
    optimizer.zero_grad()
    model(torch.ones(256, 64)).pow(2).mean().backward()
    optimizer.step()
    step += 1
    if step % 50 == 0:
        torch.save({"model": model.state_dict(), "step": step}, "last.pt.part")
        os.replace("last.pt.part", "last.pt")
        for folder in folders:
            with open(folder / "log.txt", "a") as log:
                log.write(f"{step}\\n")
            (folder / "best.txt").write_text(str(step))
            (folder / f"step-{step}.txt").write_text("new")
            (folder / "old.txt").unlink(missing_ok=True)
"""


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
def place(user: int | None) -> Iterator[Path]:
    """A home, a temporary folder and others, each with files of the user's."""
    place = Path(tempfile.mkdtemp(prefix="harmless-"))
    second = Path(tempfile.mkdtemp(prefix="harmless-", dir=SHARED))
    (place / "second").symlink_to(second)
    for folder in (place / "home/runs", place / "tmp/runs", place / "absolute", second):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("log.txt", "best.txt", "old.txt"):
            (folder / name).write_text("the user's")
    (place / "work").mkdir()
    (place / "work" / "train.py").write_text(PROGRAM)
    if user is not None:
        for top in (place, second):
            for path in (top, *top.rglob("*")):
                os.chown(path, user, user, follow_symlinks=False)
    yield place
    shutil.rmtree(place)
    shutil.rmtree(second)


def digests(place: Path) -> dict[str, str]:
    """Of every file of the user's; a run's own report and studies lie beside the program."""
    tops = [place / name for name in ("home", "tmp", "absolute")] + [(place / "second").resolve()]
    files = [path for top in tops for path in sorted(top.rglob("*")) if path.is_file()]
    files = [path for path in files if not path.name.startswith("advisor-")]  # logs of its own
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tuned(place: Path, user: int | None) -> str:
    """What `advisor tune` says of the program, which runs as ``user``."""
    environment = {
        **os.environ, "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "OMP_NUM_THREADS": "1",
        "ADVISOR_LOCKS": str(place / "tmp"),
    }  # fmt: skip
    become = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    options = ["--budget", "60s", "--knob", "optimizer_implementation", "--knob", "set_to_none"]
    folders = [str(place / "absolute"), str((place / "second").resolve())]
    command = [*become, sys.executable, "-m", "advisor", "tune", "train.py", *options, "--", *folders]
    done = subprocess.run(
        command, cwd=place / "work", env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_run_changes_no_file_of_the_users_and_each_launch_starts_alike(
    place: Path, user: int | None
) -> None:
    before = digests(place)
    assert len(before) == 12
    tuned(place, user)
    assert digests(place) == before
    outputs = [path.read_text() for path in (place / "work").rglob("stdout.log")]
    starts = [line for text in outputs for line in text.splitlines() if line.startswith("starts at")]
    assert starts and set(starts) == {"starts at 0"}
