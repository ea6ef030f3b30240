"""How commands answer: without torch, on the right stream, in the width and colour that the place allows."""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from bad_inputs import TRAINING
from command_line import HEAVY, contents, go_to, loaded_by, say
from result_builder import a_keep, a_profile_result, a_result
from warm import Warm

from advisor.cli import AVAILABLE, SHORT_HELP, Commands, main
from advisor.report.files import write_report
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which each test has a copy to work."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "train.py").write_text(TRAINING)
    (folder / "profile.json").write_text(a_profile_result().to_json())
    (folder / "keep.json").write_text(a_keep().to_json())
    write_report(a_result(), folder / "old")
    (folder / ".advisor").mkdir(mode=0o700)
    with Store.open(
        parse_storage(f"sqlite:///{folder}/.advisor/studies.db"), create=True, warn=lambda text: None
    ) as store:
        store.create_study("train", {"target": "train.py"})
        store.save_result("train", a_result())
    return folder


@pytest.fixture(autouse=True)
def here(
    made: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


LIGHT = {
    "": 2, "--help": 0, "--version": 0, "knobs": 0, "knobs amp": 0, "rules": 0, "rules input_bound": 0,
    "studies": 0,
    "report train --format html": 0, "report old --format md": 0, "report profile.json --format sarif": 0,
    "report train --out again": 0, "apply keep.json": 0, "compare old keep.json": 0, "compare old old": 2,
    "tune": 2, "tune train.py --dry-run": 0, "profile train.py --dry-run": 0, "profile trian.py": 2,
    "check train.py": 2, "doctor --zzz": 2, "init train.py": 2, "plan": 2, "trace": 2, "tuen": 2,
    **{f"{command} --help": 0 for command in AVAILABLE},
}  # fmt: skip


@pytest.mark.parametrize("words", LIGHT, ids=[words or "nothing" for words in LIGHT])
def test_what_only_answers_loads_neither_torch_nor_optuna_nor_scipy(light: Warm, words: str) -> None:
    code, loaded = loaded_by(light, *words.split())
    assert code == LIGHT[words]
    assert "advisor.cli" in loaded
    assert not loaded & set(HEAVY)


def test_help_imports_no_command() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "advisor", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert not [
        name
        for name in ("advisor.cli.commands.tune", "pydantic", "rich", "jinja2")
        if f" {name}\n" in done.stderr
    ]
    for command in AVAILABLE:
        assert f"  {command} " in done.stdout


@pytest.mark.parametrize("name", AVAILABLE)
def test_the_help_of_all_says_what_each_says_of_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import click

    command = Commands("advisor").get_command(click.Context(click.Group("advisor")), name)
    assert command is not None and command.short_help == SHORT_HELP[name]
    said = say(capsys, name, "--help").out
    examples = [line for line in said.splitlines() if line.strip().startswith(f"advisor {name}")]
    assert len(examples) >= 2
    assert "Exit codes:" in said
    assert [heading for heading in ("What to run:", "Output:") if heading in said]


DRY = {
    "tune": ("tune", "train.py", "--dry-run"),
    "tune with a storage": ("tune", "train.py", "--dry-run", "--storage", "sqlite:///new.db", "--out", "new"),
    "tune as JSON": ("tune", "train.py", "--dry-run", "--format", "json", "--", "--lr", "1"),
    "profile": ("profile", "train.py", "--dry-run"),
    "profile of a module": ("profile", "-m", "train", "--dry-run"),
}
AUDITED = """
import os, sys
from advisor.cli import main
seen = []
def audit(event, arguments):
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system",
                 "socket.connect", "os.mkdir", "os.rename", "os.remove", "os.truncate", "os.chmod",
                 "os.symlink", "os.link", "shutil.rmtree", "tempfile.mkstemp", "tempfile.mkdtemp"):
        seen.append((event, repr(arguments)))
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append((event, repr(arguments)))
    if event == "open" and arguments[1] is None and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen.append((event, repr(arguments)))
sys.dont_write_bytecode = True
sys.addaudithook(audit)
code = main(sys.argv[1:])
print(*seen, sep="\\n", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("words", DRY.values(), ids=DRY)
def test_a_dry_run_starts_writes_and_asks_nothing(here: Path, light: Warm, words: tuple[str, ...]) -> None:
    before = contents(here)
    done = light.run("-c", AUDITED, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    assert contents(here) == before


def test_a_dry_run_says_what_is_tried_started_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, "tune", "train.py", "--dry-run", "--fix", "num_workers=0", "--", "--lr", "1").out
    for told in (
        "kind:        script", "stages:", "run it unchanged", "budget s:    600", "storage:",
        "fixed:       num_workers=0", "starts:      python train.py --lr 1", "writes:",
        "advisor-report/report.html", ".advisor/studies.db", "not tried:\n", "  num_workers: fixed to 0\n",
        "  placebo: only when named\n",
    ):  # fmt: skip
        assert told in text, told
    assert text.endswith("Nothing was started or written.\n")
    facts = json.loads(say(capsys, "tune", "train.py", "--dry-run", "--keep-batch", "--format", "json").out)
    assert facts["dry_run"]["not_tried"]["batch_size"] == "--keep-batch"
    assert facts["dry_run"]["writes"][0] == "advisor-report/report.html"
    only = json.loads(say(capsys, "tune", "train.py", "--dry-run", "--knob", "amp", "--format", "json").out)
    assert "amp" not in only["dry_run"]["not_tried"]
    assert only["dry_run"]["not_tried"]["num_workers"] == "not named by --knob"


PIPED = {"rules": "rules --format json", "page": "report old --format html", "help": "tune --help"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash for pipefail")
@pytest.mark.parametrize("words", PIPED.values(), ids=PIPED)
def test_a_pipe_that_closes_early_ends_quietly_with_the_same_code(words: str) -> None:
    line = f"{sys.executable} -m advisor {words} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_work_goes_on_when_nobody_reads_it(here: Path) -> None:
    line = f"{sys.executable} -m advisor report train --out again 2>&1 | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (here / "again" / "report.html").stat().st_size > 1000


ON_IT = """
import os, sys
terminal = int(sys.argv.pop())
for place in range(3):
    os.dup2(terminal, place)
sys.stdout, sys.stderr = (os.fdopen(place, "w", buffering=1, closefd=False) for place in (1, 2))
from advisor.cli import main
sys.exit(main(sys.argv[1:]))
"""


def on_a_terminal(light: Warm, columns: int, *words: str, **variables: str) -> str:
    """What a command shows on a terminal of that width, both streams together."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")
    }
    environment = kept | {"TERM": "xterm-256color"} | variables
    child = light.start("-c", ON_IT, *words, env=environment, passes=[terminal])
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(controller, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    child.wait(60)
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("words", "variables", "coloured"),
    [
        (("tune",), {}, True),
        (("tune",), {"NO_COLOR": "1"}, False),
        (("tune",), {"TERM": "dumb"}, False),
        (("tune", "--no-color"), {}, False),
        (("tune",), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
    ids=["terminal", "NO_COLOR", "dumb", "--no-color", "both"],
)
def test_colour_is_used_on_a_terminal_that_wants_it(
    light: Warm, words: tuple[str, ...], variables: dict[str, str], coloured: bool
) -> None:
    shown = on_a_terminal(light, 80, *words, **variables)
    assert ("\x1b[1;31merror:" in shown) == coloured
    assert ("\x1b" in shown) == coloured
    assert "error:" in shown and "Missing argument 'TARGET'." in shown


@pytest.mark.parametrize("columns", [40, 80, 160])
@pytest.mark.parametrize(
    "words", [("studies",), ("compare", "old", "keep.json"), ("knobs",), ("rules",)], ids=lambda w: w[0]
)
def test_text_fits_the_terminal(light: Warm, columns: int, words: tuple[str, ...]) -> None:
    lines = on_a_terminal(light, columns, *words).splitlines()
    assert len(lines) > 1
    longest = max(lines, key=len)
    # a single word that is longer, such as a path or the name of a rule, is kept whole
    assert len(longest) <= columns or " " not in longest.strip()[: columns - 20].strip(), longest


TYPOS = {
    "command": (("tuen",), "did you mean 'tune'?"),
    "option": (("tune", "train.py", "--trails", "3"), "did you mean '--trials'"),
    "knob": (("tune", "train.py", "--knob", "bacth_size"), "did you mean batch_size?"),
    "knob page": (("knobs", "num_wokers"), "did you mean num_workers?"),
    "rule": (("rules", "input_buond"), "did you mean input_bound?"),
    "file": (("tune", "trian.py"), "did you mean train.py?"),
    "trace": (("profile", "porfile.json"), "did you mean profile.json?"),
    "study": (("report", "trian", "--format", "md"), "nearest: train"),
    "value": (("tune", "train.py", "--knob", "amp=bf61"), "'bf61' is not one of 'off', 'bf16', 'fp16'"),
    "choice": (("tune", "train.py", "--objective", "memroy"), "did you mean memory?"),
    "result": (("compare", "old", "keeep.json"), "did you mean keep.json?"),
    "result to apply": (("apply", "ol/"), "did you mean old?"),
    "report": (("report", "kep.json", "--format", "md"), "did you mean keep.json?"),
}


@pytest.mark.parametrize(("words", "hint"), TYPOS.values(), ids=TYPOS)
def test_a_misspelt_name_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], hint: str
) -> None:
    said = say(capsys, *words)
    assert said.code == 2
    assert hint in said.err


def test_a_misspelt_key_is_answered_with_the_nearest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "advisor.toml").write_text("min_gian = '3%'\n")
    assert "did you mean min-gain?" in say(capsys, "tune", "train.py").err


@pytest.mark.parametrize(
    "words",
    [("tune",), ("profile",), ("report", "nosuch"), ("apply", "nosuch"), ("check", "x.py"), ("compare", "a"),
     ("knobs", "x"), ("rules", "x"), ("studies", "x"), ("tune", "--storage", "foo", "train.py")],
    ids=" ".join,
)  # fmt: skip
def test_a_failure_under_json_is_one_document_and_the_same_code(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    text, document = say(capsys, *words), say(capsys, *words, "--format", "json")
    assert text.out == ""
    error = json.loads(document.out)["error"]
    assert text.code == document.code == error["exit_code"] == 2
    assert error["message"].splitlines()[0] in text.err


def test_the_variable_that_asks_for_json_holds_for_failures_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_FORMAT", "json")
    assert main(["tune"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_words_of_a_result_carry_no_colour_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("compare", "old", "keep.json"), ("studies",), ("apply", "keep.json")):
        said = say(capsys, *words)
        assert said.code == 0
        assert not re.search(r"\x1b|\[/?(red|bold|green|yellow)\]", said.out + said.err)
