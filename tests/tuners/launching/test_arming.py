"""What every Python below a launcher's command does first: the target asks the tuner, others pass."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.tuners.launching.exec_launch import ARMING, MEETING, VARIABLE, WANTED

SHOWS_ITSELF = """
import json, os, sys
print(json.dumps({
    "main": __name__, "argv": sys.argv, "path": sys.path, "variable": os.environ.get("ADVISOR_ARMING"),
    "loaded": [name for name in ("json", "socket", "advisor") if name in LOADED],
    "mark": os.environ.get("MARK"),
}))
"""
CODE = "import sys\nLOADED = set(sys.modules)\n" + SHOWS_ITSELF


class Meeting:
    """A tuner that lets whoever comes go on untouched."""

    def __init__(self, folder: Path, wanted: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="arming-test-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / MEETING))
        self._listener.listen()
        self._project = folder
        everything = {"file": "", "module": "", "name": "", "under": str(folder)}
        (self.folder / WANTED).write_text(json.dumps({**everything, **wanted}))

    def run(
        self, *arguments: str, path: str = "", comes: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any], str]:
        """What a Python that comes by tells, what it then prints, and its errors."""
        command = [sys.executable, *arguments]
        environment = {name: value for name, value in os.environ.items() if name != "MARK"}
        environment[VARIABLE] = str(self.folder)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ARMING), path]))
        process = subprocess.Popen(
            command,
            cwd=self._project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        told = self._meet() if comes else {}
        out, errors = process.communicate(timeout=60)
        self._listener.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody else came
            self._listener.accept()
        return told, json.loads(out), errors

    def _meet(self) -> dict[str, Any]:
        self._listener.settimeout(60)
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rw") as lines:
            told: dict[str, Any] = json.loads(lines.readline())
            lines.write('{"message": "Leave"}\n')
            lines.flush()
        return told

    def close(self) -> None:
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    for name in ("train.py", "other.py", "pkg/learn.py"):
        (tmp_path / name).write_text(CODE)
    return tmp_path


@pytest.fixture
def meetings() -> Iterator[list[Meeting]]:
    opened: list[Meeting] = []
    yield opened
    for meeting in opened:
        meeting.close()


def a_meeting(meetings: list[Meeting], project: Path, **wanted: str) -> Meeting:
    meetings.append(Meeting(project, wanted))
    return meetings[-1]


def test_the_target_tells_who_it_is(
    project: Path, meetings: list[Meeting], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    file = str((project / "train.py").resolve())
    told, printed, _ = a_meeting(meetings, project, file=file).run("-u", "./train.py", "--lr", "1")
    assert (told["kind"], told["name"], told["file"]) == ("script", "./train.py", file)
    assert (told["args"], told["cwd"]) == (["--lr", "1"], os.path.realpath(project))
    assert (told["variables"]["RANK"], told["variables"]["WORLD_SIZE"]) == ("1", "2")
    assert told["pid"] != os.getpid()
    assert (printed["main"], printed["argv"]) == ("__main__", ["./train.py", "--lr", "1"])
    assert printed["path"][0] == os.path.realpath(project)
    assert str(ARMING) not in printed["path"]


@pytest.mark.parametrize("wanted", [{"module": "pkg.learn"}, {}])
def test_a_module_tells_its_name(wanted: dict[str, str], project: Path, meetings: list[Meeting]) -> None:
    told, printed, _ = a_meeting(meetings, project, **wanted).run("-m", "pkg.learn", "--lr", "1")
    assert (told["kind"], told["name"], told["args"]) == ("module", "pkg.learn", ["--lr", "1"])
    assert told["file"] == str((project / "pkg" / "learn.py").resolve())
    assert printed["argv"][1:] == ["--lr", "1"]


@pytest.mark.parametrize(
    "arguments",
    [("-c", CODE), ("other.py",), ("-m", "pkg.learn")],
    ids=["code", "another file", "a module"],
)
def test_what_is_not_the_target_goes_on_untouched(
    arguments: tuple[str, ...], project: Path, meetings: list[Meeting]
) -> None:
    meeting = a_meeting(meetings, project, file=str(project / "train.py"))
    told, printed, errors = meeting.run(*arguments, comes=False)
    assert not told and not errors
    assert str(ARMING) not in printed["path"]
    assert printed["variable"] == str(meeting.folder)  # for what it starts in its turn


def test_a_process_that_runs_no_file_loads_nothing_for_us(project: Path, meetings: list[Meeting]) -> None:
    _, printed, _ = a_meeting(meetings, project).run("-c", CODE, comes=False)
    assert printed["loaded"] == []


def test_a_program_in_a_library_is_not_taken_for_the_target(project: Path, meetings: list[Meeting]) -> None:
    library = project / "venv" / "site-packages"
    library.mkdir(parents=True)
    (library / "tool.py").write_text(CODE)
    meeting = a_meeting(meetings, project)
    assert not meeting.run(str(library / "tool.py"), comes=False)[0]


def test_a_target_known_by_name_alone_is_found_in_any_folder(project: Path, meetings: list[Meeting]) -> None:
    told, _, _ = a_meeting(meetings, project, name="learn.py", under="/nowhere").run("pkg/learn.py")
    assert told["name"] == "pkg/learn.py"


@pytest.mark.parametrize("comes", [True, False])
def test_a_sitecustomize_of_the_users_runs_as_ever(
    comes: bool, project: Path, meetings: list[Meeting]
) -> None:
    (project / "site").mkdir()
    (project / "site" / "sitecustomize.py").write_text("import os\nos.environ['MARK'] = __file__\n")
    path = str(project / "site")
    meeting = a_meeting(meetings, project, name="train.py")
    _, printed, _ = meeting.run("train.py" if comes else "other.py", path=path, comes=comes)
    assert printed["mark"] == str(project / "site" / "sitecustomize.py")
    assert path in printed["path"]


def test_a_sitecustomize_that_fails_is_told_as_python_does(project: Path, meetings: list[Meeting]) -> None:
    (project / "site").mkdir()
    (project / "site" / "sitecustomize.py").write_text("raise ValueError('no such host')\n")
    path = str(project / "site")
    environment = {**os.environ, "PYTHONPATH": path}
    bare = subprocess.run(
        [sys.executable, "other.py"], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    _, printed, errors = a_meeting(meetings, project, name="train.py").run("train.py", path=path)
    assert errors == bare.stderr != ""
    assert printed["main"] == "__main__"


def test_a_target_that_comes_too_late_runs_bare(project: Path, meetings: list[Meeting]) -> None:
    meeting = a_meeting(meetings, project, name="train.py")
    shutil.rmtree(meeting.folder)
    _, printed, errors = meeting.run("train.py", comes=False)
    assert printed["argv"] == ["train.py"] and not errors


def test_a_tuner_that_goes_away_while_asked_leaves_the_program_to_itself(
    project: Path, meetings: list[Meeting]
) -> None:
    meeting = a_meeting(meetings, project, name="train.py")
    (project / "closes.py").write_text(
        textwrap.dedent(
            f"""
            import socket, subprocess, sys
            listener = socket.socket(fileno={meeting._listener.fileno()})
            program = subprocess.Popen([sys.executable, "train.py"])
            listener.accept()[0].close()
            sys.exit(program.wait())
            """
        )
    )
    environment = {**os.environ, VARIABLE: str(meeting.folder), "PYTHONPATH": str(ARMING)}
    done = subprocess.run(
        [sys.executable, "closes.py"], cwd=project, env=environment, capture_output=True, text=True,
        timeout=60, pass_fds=[meeting._listener.fileno()],
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["argv"]) == (0, ["train.py"])
