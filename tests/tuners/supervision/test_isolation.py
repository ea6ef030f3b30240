"""What a trial writes below its folder is seen by the trial alone."""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import SUPERVISE

from advisor.tuners.supervision import isolation, starting

REFUSAL = isolation.probe()
pytestmark = [
    pytest.mark.skipif(REFUSAL is not None, reason=f"no write isolation here: {REFUSAL}"),
    pytest.mark.usefixtures("no_process_remains"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts are made in this test")
SOMEBODY = 65534


@pytest.fixture(params=["present user", "unprivileged"])
def user(request: pytest.FixtureRequest) -> int | None:
    """Whose trial it is: the present user's, or without any privilege; ``None`` for the present user."""
    if request.param == "present user":
        return None
    if os.geteuid() != 0:
        pytest.skip("the present user has no privileges either")
    return SOMEBODY


@pytest.fixture
def place(user: int | None) -> Iterator[Path]:
    """A folder that the trial's user owns, with ``work`` and ``scratch`` to be."""
    with tempfile.TemporaryDirectory(prefix="isolation-test-") as name:
        place = Path(name).resolve()
        (place / "work" / "old" / "deep").mkdir(parents=True)
        (place / "work" / "study").mkdir()
        (place / "work" / "kept.txt").write_text("as before")
        (place / "work" / "changed.txt").write_text("as before")
        (place / "work" / "old" / "doomed.txt").write_text("as before")
        (place / "work" / "old" / "deep" / "moved.txt").write_text("as before")
        (place / "work" / "link").symlink_to("kept.txt")
        if user is not None:
            for path in [place, *place.rglob("*")]:
                os.chown(path, user, user, follow_symlinks=False)
        yield place
        isolation.remove(place / "scratch")


def picture(folder: Path) -> dict[str, tuple[int, int, int, bytes | str]]:
    """Every entry with its mode, modification time, size and content."""
    seen = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: bytes | str = path.readlink().name if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
        seen[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return seen


def isolated(place: Path, user: int | None, body: str, keep: tuple[str, ...] = ()) -> str:
    """What a Python program says that isolates ``place/work``, stands there, and runs ``body``.

    A refusal is told as ``refused: reason``.
    """
    program = f"""
        import ctypes, os, shutil, signal, subprocess, sys, time
        from pathlib import Path
        from advisor.tuners.supervision import isolation, process_tree
        place = Path({str(place)!r})
        user = {user!r}
        if user is not None:
            os.setgroups([]); os.setgid(user); os.setuid(user)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as in a process that never was root
        os.chdir(place / 'work')
        try:
            isolation.enter(place / 'work', place / 'scratch', [place / name for name in {keep!r}])
        except (OSError, ValueError) as error:
            print('refused:', error)
            sys.exit()
    """
    program = textwrap.dedent(program) + textwrap.dedent(body)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=10, check=False
    )
    assert ran.stderr == ""
    return ran.stdout.strip()


def test_a_script_sees_what_it_does_and_nobody_else_does(place: Path, user: int | None) -> None:
    before = picture(place / "work")
    body = """
        Path('new.txt').write_text('new')
        Path('runs/one').mkdir(parents=True)
        Path('runs/one/log').write_text('log')
        os.rename('runs', 'runs2')
        with open('changed.txt', 'a') as file: file.write(' and after')
        os.remove('old/doomed.txt')
        os.rename('old/deep/moved.txt', 'old/moved.txt')
        Path('link').unlink(); Path('link').symlink_to('new.txt')
        listing = subprocess.run(['find', '.', '-type', 'f'], capture_output=True, text=True).stdout
        print(*sorted(listing.split()), Path('changed.txt').read_text(), Path('link').read_text())
    """
    assert isolated(place, user, body) == (
        "./changed.txt ./kept.txt ./new.txt ./old/moved.txt ./runs2/one/log as before and after new"
    )
    assert picture(place / "work") == before
    scratch = place / "scratch"
    expected = ["changed.txt", "link", "new.txt", "old/moved.txt", "runs2/one/log"]
    assert isolation.written(scratch) == expected
    assert isolation.removed(scratch) == ["old/deep/moved.txt", "old/doomed.txt"]


def test_the_trial_keeps_its_user(place: Path, user: int | None) -> None:
    said = isolated(place, user, "print(os.getuid(), os.getgid(), os.stat('.').st_uid)")
    who, group = (os.geteuid(), os.getegid()) if user is None else (user, user)
    assert said == f"{who} {group} {who}"


def test_a_kept_folder_is_shared_with_everyone(place: Path, user: int | None) -> None:
    body = """
        Path('study/outcome.json').write_text('{}')
        Path('study/sub').mkdir()
        Path('lost').write_text('')
        os.rename('study/outcome.json', 'study/sub/outcome.json')
    """
    assert isolated(place, user, body, keep=("work/study",)) == ""
    assert (place / "work" / "study" / "sub" / "outcome.json").read_text() == "{}"
    assert not (place / "work" / "lost").exists()
    assert isolation.written(place / "scratch") == ["lost"]


def test_a_kept_file_is_shared_with_everyone(place: Path, user: int | None) -> None:
    assert isolated(place, user, "Path('kept.txt').write_text('x')", keep=("work/kept.txt",)) == ""
    assert (place / "work" / "kept.txt").read_text() == "x"


def test_a_big_file_is_copied_only_when_it_is_written(place: Path, user: int | None) -> None:
    big = place / "work" / "big"
    with big.open("wb") as file:
        file.truncate(50_000_000)
    if user is not None:
        os.chown(big, user, user)
    body = """
        copied = lambda: (place / 'scratch/upper/big').exists()
        print(len(Path('big').read_bytes()), copied())
        with open('big', 'r+b') as file: file.write(b'x')
        print(copied())
    """
    assert isolated(place, user, body) == "50000000 False\nTrue"
    assert big.read_bytes()[:1] == b"\0"


def test_names_with_special_characters_work(place: Path, user: int | None) -> None:
    odd = place / "a,b:c\\d =e\n"
    os.rename(place / "work", odd)
    (place / "work").symlink_to(odd)
    assert (
        isolated(place, user, "Path('new').write_text('')\nprint(len(os.listdir()))", keep=("work/study",))
        == "6"
    )
    assert not (odd / "new").exists()


def test_other_folders_are_as_before(place: Path, user: int | None) -> None:
    assert isolated(place, user, "(place / 'elsewhere').write_text('here')\nprint(os.getcwd())") == str(
        place / "work"
    )
    assert (place / "elsewhere").read_text() == "here"


def test_the_parents_end_still_ends_an_isolated_trial(place: Path, user: int | None) -> None:
    body = """
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:  # the supervisor, which asks first and isolates then
            supervisor = os.getpid()
            if os.fork() == 0:
                process_tree.die_with_parent(supervisor)
                isolation.enter(place / 'work' / 'old', place / 'scratch2')
                os.write(write, b'ready')
                time.sleep(60)
            os.close(write)
            signal.pause()
        os.close(write)
        os.read(read, 5)
        os.kill(pid, signal.SIGKILL)
        print(os.read(read, 5))
    """
    assert isolated(place, user, body) == "b''"
    isolation.remove(place / "scratch2")


def test_a_scratch_folder_inside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must lie outside"):
        isolation.enter(tmp_path, tmp_path / "scratch")
    assert list(tmp_path.iterdir()) == []


def test_keeping_everything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with pytest.raises(ValueError, match="nothing of"):
        isolation.enter(tmp_path / "work", tmp_path / "scratch", [tmp_path])


def test_a_kept_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with pytest.raises(FileNotFoundError):
        isolation.enter(tmp_path / "work", tmp_path / "scratch", [tmp_path / "work" / "nothing"])


def test_the_probe_says_why_not(tmp_path: Path) -> None:
    assert isolation.probe(tmp_path) is None
    assert str(isolation.probe(tmp_path, tmp_path)).endswith(f"must lie outside {tmp_path}")
    assert list(tmp_path.iterdir()) == []
    assert "mount an overlay on /proc" in str(isolation.probe(Path("/proc")))


def test_a_scratch_folder_can_be_removed_and_missing(place: Path, user: int | None) -> None:
    assert isolated(place, user, "Path('new').write_text('')\nos.chdir('/')") == ""
    isolation.remove(place / "scratch")
    isolation.remove(place / "scratch")
    assert not (place / "scratch").exists()


@as_root
def test_a_mount_point_inside_stays_as_it_is_with_root_and_is_refused_without(
    place: Path, user: int | None
) -> None:
    inner = place / "work" / "old" / "deep"
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", bytes(inner), b"tmpfs", 0, b"mode=777") == 0
    try:
        assert isolation.nested_mounts(place / "work") == [inner]
        said = isolated(
            place, user, "Path('old/deep/seen').write_text('')\nPath('old/unseen').write_text('')"
        )
        if user is None:
            assert said == ""
            assert [path.name for path in inner.iterdir()] == ["seen"]
            assert isolation.written(place / "scratch") == ["old/unseen"]
        else:
            assert said == f"refused: [Errno 22] {inner} is a mount point, which only root can carry over"
    finally:
        assert libc.umount(bytes(inner)) == 0


@as_root
def test_with_root_a_folder_that_was_there_can_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "work" / "old").mkdir(parents=True)
    (tmp_path / "work" / "old" / "file").write_text("as before")
    assert (
        isolated(tmp_path, None, "os.rename('old', 'new')\nprint(Path('new/file').read_text())")
        == "as before"
    )
    assert isolation.written(tmp_path / "scratch") == ["new/"]
    assert isolation.removed(tmp_path / "scratch") == ["old"]
    assert [path.name for path in (tmp_path / "work").rglob("*")] == ["old", "file"]


def test_a_supervised_program_writes_in_isolation(tmp_path: Path) -> None:
    (tmp_path / "work" / "study").mkdir(parents=True)
    command = [*SUPERVISE, "--parent", str(os.getpid())]
    command += ["--stdout", "study/out", "--stderr", "study/err", "--status-fd", "1", "--overlay", "."]
    command += ["--scratch", "../scratch", "--keep", "study", "--"]
    command += ["sh", "-c", "echo seen; touch here study/there; ls"]
    ran = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, timeout=5, check=True)
    assert json.loads(ran.stdout)["exit_code"] == 0
    assert (tmp_path / "work" / "study" / "out").read_text() == "seen\nhere\nstudy\n"
    assert sorted(path.name for path in (tmp_path / "work").rglob("*")) == ["err", "out", "study", "there"]


def test_a_program_that_cannot_be_isolated_does_not_start(tmp_path: Path) -> None:
    command = [*SUPERVISE, "--parent", str(os.getpid())]
    command += ["--stdout", "out", "--stderr", "err", "--overlay", ".", "--scratch", "scratch"]
    ran = subprocess.run([*command, "--", "touch", "started"], cwd=tmp_path, timeout=5, check=False)
    assert ran.returncode == starting.NOT_ISOLATED
    reason = f"the scratch folder {tmp_path / 'scratch'} must lie outside {tmp_path}"
    assert (tmp_path / "err").read_text() == f"writes could not be isolated: {reason}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "out"]
