"""A changed program runs as if it stood in the file that it was made from."""

import subprocess
import sys
from pathlib import Path

import pytest

from advisor.runs.stand_in import write_stand_in

PROGRAM = '''"""What it is."""
import inspect
import sys
import traceback

import beside

def shown():
    return "changed"

print(__doc__, __name__, __file__, sys.argv, sys.path[0], beside.VALUE, sep="|")
print(inspect.getsource(shown).split()[-1])
if len(sys.argv) > 1:
    try:
        raise ValueError(sys.argv[1])
    except ValueError:
        traceback.print_exc()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "train.py").write_text("raise SystemExit('the file itself was run')\n")
    (folder / "beside.py").write_text("VALUE = 7\n")
    return folder


def run(project: Path, content: bytes, *arguments: str) -> "subprocess.CompletedProcess[str]":
    place = project.parent / "elsewhere"
    place.mkdir(exist_ok=True)
    start = write_stand_in(project / "train.py", content, place)
    return subprocess.run(
        [sys.executable, str(start), *arguments], cwd=project, capture_output=True, text=True, check=False
    )


def test_the_program_cannot_tell_where_it_lies(project: Path) -> None:
    done = run(project, PROGRAM.encode())
    file = str(project / "train.py")
    assert done.stdout.splitlines() == [
        f"What it is.|__main__|{file}|[{file!r}]|{project}|7",
        '"changed"',
    ], done.stderr


def test_a_traceback_shows_the_changed_lines_of_the_file(project: Path) -> None:
    done = run(project, PROGRAM.encode(), "broken")
    assert f'File "{project / "train.py"}", line 15' in done.stderr
    assert "raise ValueError(sys.argv[1])" in done.stderr


def test_the_declared_coding_counts(project: Path) -> None:
    done = run(project, "# coding: latin-1\nprint(len('\xe9'))\n".encode("latin-1"))
    assert done.stdout == "1\n", done.stderr


def test_a_workload_is_found_in_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.tuners.trial.spec import Target
    from advisor.tuners.trial.workload_transfer import load_workload

    monkeypatch.setattr(sys, "path", list(sys.path))
    place = project.parent / "elsewhere"
    place.mkdir()
    content = (
        b"import advisor\nimport beside\nworkload = advisor.Workload(model=dict, dataset=list, "
        b"optimizer=list, loss=print, batch_size=beside.VALUE)\n"
    )
    start = write_stand_in(project / "train.py", content, place)
    assert load_workload(Target("workload", str(start))).batch_size == 7
    assert str(project) in sys.path and str(place) not in sys.path
