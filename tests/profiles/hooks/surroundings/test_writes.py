"""What a program writes, reaches and starts is listed; what it reads is not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

BOOT = """
import json, os, sys
from pathlib import Path
from advisor.profiles.hooks.surroundings.writes import Writes
writes = Writes([Path("scratch")])
writes.install()
{program}
writes.active = False
print(json.dumps([writes.files, writes.connections, writes.processes]))
"""


def heard(folder: Path, program: str) -> list[Any]:
    """Files, connections and processes of a program that ran in ``folder``."""
    boot = BOOT.format(program=program)
    (folder / "scratch").mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", boot],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: list[Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("program", "files"),
    [
        ("open('new.txt', 'w').close()", ["new.txt"]),
        ("open('old.txt', 'a').close()", ["old.txt"]),
        ("open('old.txt', 'r+b').close()", ["old.txt"]),
        ("open('old.txt').read()", []),
        ("os.close(os.open('new.bin', os.O_CREAT | os.O_WRONLY))", ["new.bin"]),
        ("Path('sub').joinpath('deep').mkdir(parents=True)", ["sub", "sub/deep"]),
        ("os.makedirs('there', exist_ok=True)", []),
        ("[open('new.txt', 'w').close() for _ in range(3)]", ["new.txt"]),
        ("os.rename('old.txt', 'moved.txt')", ["old.txt", "moved.txt"]),
        ("os.remove('old.txt')", ["old.txt"]),
        ("os.symlink('old.txt', 'link')", ["link"]),
        ("open('a.tmp', 'w').close(); os.replace('a.tmp', 'a.txt')", ["a.txt"]),
        ("open('brief', 'w').close(); os.remove('brief')", []),
        ("import shutil; open('there/x', 'w').close(); shutil.rmtree('there')", ["there"]),
        ("os.chdir('there'); open('x', 'w').close()", ["there/x"]),
        ("open(os.path.abspath('new.txt'), 'w').close()", ["new.txt"]),
        ("open('../beside.txt', 'w').close()", ["BESIDE/beside.txt"]),
        ("open(b'by\\xff', 'w').close()", [os.fsdecode(b"by\xff")]),
        ("import sqlite3; sqlite3.connect('a.db').close(); sqlite3.connect(':memory:').close()", ["a.db"]),
        ("open(os.devnull, 'w').close(); open('/dev/shm/advisor-test', 'w').close()", []),
        ("os.mkdir('__pycache__'); open('__pycache__/x.pyc', 'w').close()", []),
        ("open('scratch/x', 'w').close(); os.mkdir('scratch/y')", []),
        ("r, w = os.pipe(); open(w, 'w').close()", []),
        ("try:\n    open('absent/x', 'w')\nexcept OSError:\n    print(end='')", []),
    ],
)
def test_files_are_listed_where_something_of_the_users_changes(
    tmp_path: Path, program: str, files: list[str]
) -> None:
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "there").mkdir()
    expected = [file.replace("BESIDE", str(tmp_path.parent)) for file in files]
    assert heard(tmp_path, program) == [expected, [], []]
    (tmp_path.parent / "beside.txt").unlink(missing_ok=True)
    Path("/dev/shm/advisor-test").unlink(missing_ok=True)


def test_no_more_than_a_thousand_files_are_kept(tmp_path: Path) -> None:
    files, _, _ = heard(tmp_path, "for i in range(1100): open(f'{i}.txt', 'w').close()")
    assert files == [f"{i}.txt" for i in range(1000)]


def tried(call: str) -> str:
    return f"import socket\ntry:\n{indent(call, '    ')}\nexcept OSError:\n    print(end='')\n"


@pytest.mark.parametrize(
    ("call", "connections"),
    [
        ("s = socket.socket(); s.settimeout(0.05); s.connect(('192.0.2.1', 443))", ["192.0.2.1:443"]),
        ("s = socket.socket(); s.settimeout(0.05); s.connect(('127.0.0.1', 9))", []),
        ("socket.socket(socket.AF_INET6).connect(('::1', 9))", []),
        ("socket.socket(socket.AF_UNIX).connect('/nowhere.sock')", []),
        ("socket.getaddrinfo('api.example.invalid', 443)", ["api.example.invalid:443"]),
        ("socket.gethostbyname('api.example.invalid')", ["api.example.invalid"]),
        ("socket.getaddrinfo('localhost', 80)", []),
        ("socket.gethostbyname(socket.gethostname())", []),
        ("socket.getaddrinfo(None, 80)", []),
    ],
)
def test_connections_to_the_outside_are_listed(tmp_path: Path, call: str, connections: list[str]) -> None:
    assert heard(tmp_path, tried(call)) == [[], connections, []]


@pytest.mark.parametrize(
    ("program", "processes"),
    [
        ("import subprocess; subprocess.run(['/bin/true', '--token=secret'])", ["/bin/true"]),
        ("import subprocess; subprocess.run('true', shell=True)", ["/bin/sh"]),
        ("os.system('true')", ["sh"]),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)", ["/bin/true"]),
        ("import subprocess; [subprocess.run(['true']) for _ in range(2)]", ["true"]),
    ],
)
def test_started_programs_are_listed_without_their_arguments(
    tmp_path: Path, program: str, processes: list[str]
) -> None:
    assert heard(tmp_path, program) == [[], [], processes]


def test_forked_children_are_not_listened_to(tmp_path: Path) -> None:
    program = """
child = os.fork()
if child == 0:
    open("by_child", "w").close()
    os.write(2, json.dumps(writes.files).encode())
    os._exit(len(writes.files))
assert os.waitpid(child, 0)[1] == 0
"""
    assert heard(tmp_path, program) == [[], [], []]
    assert (tmp_path / "by_child").exists()


def test_nothing_is_heard_while_it_is_not_active(tmp_path: Path) -> None:
    program = "writes.active = False; open('a', 'w').close(); writes.active = True; open('b', 'w').close()"
    assert heard(tmp_path, program) == [["b"], [], []]


def test_a_program_whose_folder_is_gone_is_not_disturbed(tmp_path: Path) -> None:
    program = """
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
try:
    open("x", "w")
except FileNotFoundError:
    print(end="")
"""
    assert heard(tmp_path, program) == [[], [], []]
