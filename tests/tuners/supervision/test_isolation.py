"""What a trial writes, wherever it writes it, is seen by the trial alone."""

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

from advisor.tuners.supervision import child_start, isolation
from advisor.tuners.supervision.isolation import Coverage
from advisor.tuners.supervision.mounts import LOOKED

COVERAGE = isolation.probe(Path.cwd())
REFUSAL = COVERAGE if isinstance(COVERAGE, str) else None
pytestmark = [
    pytest.mark.slow,  # one worker has it as a whole: disks that one test mounts are met by others beside it
    pytest.mark.skipif(REFUSAL is not None, reason=f"no write isolation here: {REFUSAL}"),
    pytest.mark.usefixtures("no_process_remains"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts are made in this test")
OTHER = 54329
SOMEBODY = 54321  # not 65534, by which a namespace shows every other user
PROGRAM = """
    import ctypes, json, mmap, multiprocessing.synchronize
    import os, shutil, signal, socket, subprocess, sys, tempfile, time
    from dataclasses import asdict
    from pathlib import Path
    from advisor.tuners.supervision import isolation, process_tree
    place = Path({place!r})
    listening, layers_for = isolation.listening, isolation.layers_for
    gone, goes = place / 'a socket that is gone meanwhile', place / 'a socket that goes once it is open'
    def with_some_that_go():
        socket.socket(socket.AF_UNIX).bind(str(goes))
        return [*listening(), gone, goes]
    isolation.listening = with_some_that_go
    isolation.layers_for = lambda *of: (goes.unlink(), layers_for(*of))[1]
    user = {user!r}
    if user is not None:
        os.setgroups([]); os.setgid(user); os.setuid(user)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as in a process that never was root
    os.chdir(place / 'work')
    read, write = os.pipe()
    if os.fork() == 0:
        coverage = isolation.tried(place / 'probe', place / 'work', 'mark')
        os.write(write, json.dumps(asdict(coverage)).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    coverage = isolation.Coverage(**json.loads(os.read(read, 65536)))
    roots = [*map(Path, coverage.roots), place / 'a disk that is gone meanwhile']
    try:
        isolation.enter(
            roots, place / 'scratch', [place / name for name in {keep!r}], in_memory={in_memory!r}
        )
    except OSError as error:
        print('refused:', error)
        sys.exit()
"""


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


def isolated(
    place: Path, user: int | None, body: str, keep: tuple[str, ...] = (), *, in_memory: bool = False
) -> str:
    """What a Python program says that isolates its writes, stands in ``place/work`` and runs ``body``.

    A refusal is told as ``refused: reason``.
    """
    program = PROGRAM.format(place=str(place), user=user, keep=keep, in_memory=in_memory)
    program = textwrap.dedent(program) + textwrap.dedent(body)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    isolation.remove(place / "probe")
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


def test_nothing_remains_in_any_folder_that_may_be_written(place: Path, user: int | None) -> None:
    name = f"isolation-test-{os.getpid()}"
    body = f"""
        written = []
        for folder in ['/', '/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~'), str(place)]:
            if os.access(folder, os.W_OK):
                Path(folder, {name!r}).write_text('here')
                written.append(folder)
        print(*written)
    """
    folders = isolated(place, user, body).split()
    assert {"/tmp", "/dev/shm", str(place)} <= set(folders)
    assert [folder for folder in folders if Path(folder, name).exists()] == []


def test_the_next_trial_sees_nothing_of_the_one_before(place: Path, user: int | None) -> None:
    body = """
        for folder in (place, '/dev/shm'):
            path = Path(folder, f'isolation-test-{os.getppid()}')
            print(path.exists())
            path.write_text('one')
    """
    first = isolated(place, user, body)
    isolation.remove(place / "scratch")
    assert (first, isolated(place, user, body)) == ("False\nFalse", "False\nFalse")


def test_processes_of_one_trial_share_what_they_write(place: Path, user: int | None) -> None:
    code = PROGRAM.replace(
        "    try:\n        isolation.enter",
        "    ready, tell = os.pipe()\n    other = os.fork()\n    if other:\n        os.read(ready, 1)\n"
        "    try:\n        isolation.enter",
    )
    code = textwrap.dedent(
        code.format(place=str(place), user=user, keep=(), in_memory=False)
    ) + textwrap.dedent("""
        if not other:
            (place / 'shared').write_text('by the first')
            os.write(tell, b'x')
            time.sleep(60)
        print((place / 'shared').read_text(), os.getcwd() == str(place / 'work'))
        os.kill(other, signal.SIGKILL)
        os.wait()
    """)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "by the first True"
    assert not (place / "shared").exists()


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


def test_a_kept_file_is_shared_with_everyone(place: Path, user: int | None) -> None:
    assert isolated(place, user, "Path('kept.txt').write_text('x')", keep=("work/kept.txt",)) == ""
    assert (place / "work" / "kept.txt").read_text() == "x"


def test_sockets_reach_whoever_listens_outside(place: Path, user: int | None) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        (place / "socket").chmod(0o777)
        listener.listen()
        body = "s = socket.socket(socket.AF_UNIX); s.connect(str(place / 'socket')); s.send(b'here')"
        assert isolated(place, user, body) == ""
        assert listener.accept()[0].recv(4) == b"here"


def test_shared_memory_of_processes_works(place: Path, user: int | None) -> None:
    body = """
        with open('/dev/shm/isolation-test', 'w+b') as file:
            file.truncate(8)
            memory = mmap.mmap(file.fileno(), 8)
        if os.fork() == 0:
            with open('/dev/shm/isolation-test', 'r+b') as file:
                mmap.mmap(file.fileno(), 8)[0] = 7
            os._exit(0)
        os.wait()
        with multiprocessing.get_context('fork').Lock():
            print(memory[0])
    """
    assert isolated(place, user, body) == "7"


def test_a_big_file_is_copied_only_when_it_is_written(place: Path, user: int | None) -> None:
    big = place / "work" / "big"
    with big.open("wb") as file:
        file.truncate(50_000_000)
    if user is not None:
        os.chown(big, user, user)
    body = """
        print(len(Path('big').read_bytes()))
        with open('big', 'r+b') as file: file.write(b'x')
    """
    assert isolated(place, user, body) == "50000000"
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


def test_what_is_written_may_land_in_memory(place: Path, user: int | None) -> None:
    body = """
        (place / 'new').write_text('new')
        print((place / 'new').read_text(), sorted(os.listdir(place / 'scratch')))
    """
    assert isolated(place, user, body, in_memory=True) == "new ['layers', 'namespace']"
    assert not (place / "new").exists()
    assert list((place / "scratch" / "layers").iterdir()) == []


def test_the_layers_are_out_of_sight(place: Path, user: int | None) -> None:
    body = "(place / 'new').write_text('')\nprint(list((place / 'scratch' / 'layers').iterdir()))"
    assert isolated(place, user, body) == "[]"


def test_the_parents_end_still_ends_an_isolated_trial(place: Path, user: int | None) -> None:
    body = """
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:  # the supervisor, which asks first and isolates then
            supervisor = os.getpid()
            if os.fork() == 0:
                process_tree.die_with_parent(supervisor)
                isolation.enter([place / 'work' / 'old'], place / 'scratch2', in_memory=True)
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


def test_a_kept_folder_that_is_missing_is_refused(place: Path, user: int | None) -> None:
    said = isolated(place, user, "", keep=("work/nothing",))
    assert said.startswith("refused: [Errno 2] No such file or directory")


def test_the_probe_says_what_is_isolated(tmp_path: Path) -> None:
    found = isolation.probe(tmp_path, tmp_path)
    assert isinstance(found, Coverage)
    assert found.covers(tmp_path / "some" / "file")
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_out_is_not_covered_though_it_lies_in_a_root() -> None:
    coverage = Coverage(("/home/me", "/home/me/usb/inner"), (("/home/me/usb", "no overlay"),))
    names = ("/home/me/x", "/home/me/usb/x", "/home/me/usb/inner/x", "/home/other")
    assert [coverage.covers(Path(name)) for name in names] == [True, False, True, False]


def test_a_scratch_folder_can_be_removed_and_missing(place: Path, user: int | None) -> None:
    body = "os.mkdir('shut'); Path('shut/file').write_text(''); os.chmod('shut', 0)"
    assert isolated(place, user, body) == ""
    isolation.remove(place / "scratch")
    isolation.remove(place / "scratch")
    assert not (place / "scratch").exists()


@pytest.fixture
def second(place: Path) -> Iterator[Path]:
    """A file system of its own, mounted in the working folder, that anybody may write."""
    inner = place / "work" / "old" / "deep"
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", bytes(inner), b"tmpfs", 0, b"mode=777") == 0
    try:
        (inner / "data").write_text("as before")
        (inner / "data").chmod(0o666)
        yield inner
    finally:
        assert libc.umount(bytes(inner)) == 0


@as_root
def test_a_second_file_system_is_isolated_as_well(place: Path, second: Path, user: int | None) -> None:
    body = """
        Path('old/deep/new').write_text('')
        print(Path('old/deep/data').read_text(), coverage.covers(place / 'work' / 'old' / 'deep' / 'data'))
        print(*(left for left, _ in coverage.left))
    """
    before = picture(second)
    said = isolated(place, user, body).splitlines()
    assert said[0] == "as before True"
    assert picture(second) == before
    split = [str(path) for path in (place, place / "work", place / "work" / "old")]
    assert said[1:] == ([""] if user is None else [" ".join(["/tmp", *split])])[: len(said) - 1]


@as_root
def test_what_has_another_group_is_left_out_where_only_root_can_copy_it(
    place: Path, user: int | None
) -> None:
    if user is not None:  # of their own, since others must not meet a folder of theirs that has another group
        user = OTHER
        for path in [place, *place.rglob("*")]:
            os.chown(path, user, user, follow_symlinks=False)
    os.chown(place / "work" / "old", user or 0, 54322)
    with tempfile.TemporaryDirectory() as crowded:  # what lies beside it is not looked at before it
        Path(crowded).chmod(0o755)
        for number in range(LOOKED + 1):
            Path(crowded, str(number)).touch()
        assert isolated(place, user, "print(coverage.covers(place / 'work'))") == str(user is None)


@as_root
def test_a_sticky_folder_of_root_such_as_x11_s_leaves_what_is_around_it_isolated(
    place: Path, user: int | None
) -> None:
    sockets = place / "work" / ".X11-unix"
    sockets.mkdir()
    sockets.chmod(0o1777)
    assert isolated(place, user, "print(coverage.covers(place / 'work'))") == "True"


@as_root
def test_a_device_stays_as_it_is(place: Path, user: int | None) -> None:
    assert (
        isolated(place, user, "Path('/dev/null').write_text('x')\nprint(os.path.exists('/proc/self'))")
        == "True"
    )


@as_root
def test_with_root_a_folder_that_was_there_can_be_renamed(place: Path) -> None:
    before = picture(place / "work")
    said = isolated(place, None, "os.rename('old', 'new')\nprint(Path('new/doomed.txt').read_text())")
    assert said == "as before"
    assert picture(place / "work") == before


def test_a_supervised_program_writes_in_isolation(tmp_path: Path) -> None:
    (tmp_path / "work" / "study").mkdir(parents=True)
    command = [*SUPERVISE, "--parent", str(os.getpid())]
    command += ["--stdout", "study/out", "--stderr", "study/err", "--status-fd", "1", "--overlay", ".."]
    command += ["--scratch", "../scratch", "--keep", "study", "--"]
    command += ["sh", "-c", "echo seen; touch here ../beside study/there; ls"]
    ran = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, timeout=60, check=True)
    assert json.loads(ran.stdout)["exit_code"] == 0
    assert (tmp_path / "work" / "study" / "out").read_text() == "seen\nhere\nstudy\n"
    assert sorted(path.name for path in (tmp_path / "work").rglob("*")) == ["err", "out", "study", "there"]
    isolation.remove(tmp_path / "scratch")
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_a_program_that_cannot_be_isolated_does_not_start(tmp_path: Path) -> None:
    command = [*SUPERVISE, "--parent", str(os.getpid())]
    command += ["--stdout", "out", "--stderr", "err", "--overlay", "/proc", "--scratch", "scratch"]
    ran = subprocess.run([*command, "--", "touch", "started"], cwd=tmp_path, timeout=60, check=False)
    assert ran.returncode == child_start.NOT_ISOLATED
    reason = "[Errno 22] mount an overlay on /proc: Invalid argument"
    assert (tmp_path / "err").read_text() == f"writes could not be isolated: {reason}\n"
    assert not (tmp_path / "started").exists()
