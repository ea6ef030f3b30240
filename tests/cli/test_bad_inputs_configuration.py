"""Wrong settings of files and the environment, and wrong knobs: rows 68 to 77 of the table of bad inputs."""

import json
from pathlib import Path

import pytest
from bad_inputs import TRAINING, Row, assert_quick, assert_refused, tune
from command_line import contents, go_to, say

UNTOLD = ("must hold", "TOMLDecodeError", "validation error")

FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "68": ("trials 4\n", ("advisor.toml:1:8: expected '='",)),
    "68 at its end": ("trials = [1", ("advisor.toml, at its end: ",)),
    "69": ("trails = 3\n", ("trails: unknown key", "--> advisor.toml", "hint: did you mean trials?")),
    "70": ('trials = "40"\n', ('trials: expected an integer, got "40"',)),
    "70 a switch": ("keep-batch = 1\n", ("keep-batch: expected true or false, got 1",)),
    "70 a switch as a number": ("trials = true\n", ("trials: expected an integer, got true",)),
    "70 a text": ("budget = 600\n", ("budget: expected a text, got 600",)),
    "70 NaN": ("min-gain = nan\n", ("min-gain: 'nan' is not a share",)),
    "71 empty": ("[knob]\nnum_workers = []\n", ("knob.num_workers: no value is given",)),
    "71 twice": ("[knob]\nnum_workers = [2, 2]\n", ("2 is given twice",)),
    "71 low above high": (
        "[knob]\nbatch_size = {low = 128, high = 64}\n", ("knob.batch_size: low 128 is above high 64",)),
    "71 log with 0": (
        "[knob]\nnum_workers = {low = 0, high = 4, log = true}\n", ("log needs a low of at least 1, got 0",)),
    "71 step 0": ("[knob]\nbatch_size = {low = 1, high = 4, step = 0}\n", ("at least 1, got 0",)),
    "71 NaN": ("[knob]\nbatch_size = [nan]\n", ("knob.batch_size: nan is not a value",)),
    "71 too many": ("[knob]\nbatch_size = {low = 1, high = 9999}\n", ("9999 values; 100 is the limit",)),
    "72": ("[knob]\nbacth_size = true\n", ("unknown knob 'bacth_size'", "did you mean batch_size?")),
    "fix": ("[fix]\namp = 3\n", ("fix: amp: '3' is not one of",)),
}  # fmt: skip
TYPED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "72": (("--knob", "bacth_size"), 2,
           ("unknown knob 'bacth_size'", "did you mean batch_size?", "`advisor knobs`")),
    "72 a value": (("--knob", "amp=bf61"), 2, ("amp: 'bf61' is not one of 'off', 'bf16', 'fp16'",)),
    "72 no value": (("--knob", "amp="), 2, ("amp: a value is empty",)),
    "72 fix": (("--fix", "amp"), 2, ("no value in 'amp'", "`--fix amp=off`")),
    "72 twice": (("--knob", "num_workers=2,2"), 2, ("num_workers: 2 is given twice",)),
    "72 strategy": (("--knob", "strategy=ddq"), 2, ("strategy: 'ddq' is not one of", "'ddp'")),
    "74": (("--fix", "num_workers=0", "--knob", "num_workers=2,4"), 2,
           ("--fix num_workers=0 and --knob num_workers=2,4",)),
}  # fmt: skip
ROWS = {
    name: Row(tune(), 2, told, untold=UNTOLD, files={"advisor.toml": text})
    for name, (text, told) in FILES.items()
}
ROWS |= {
    f"{name} of pyproject": Row(
        tune(), 2, told, untold=UNTOLD, files={"pyproject.toml": f"[tool.advisor]\n{text}"}
    )
    for name, text, told in (
        ("68", "trials 4\n", ("pyproject.toml:2:8: expected '='",)),
        ("69", "trails = 3\n", ("trails: unknown key", "--> pyproject.toml", "did you mean trials?")),
    )
}
ROWS |= {name: Row(tune(*words), code, told, untold=UNTOLD) for name, (words, code, told) in TYPED.items()}
VARIABLES = {
    "75": ("ADVISOR_TRIALS", "abc", ("ADVISOR_TRIALS: 'abc' is not a valid integer",)),
    "75 budget": ("ADVISOR_BUDGET", "10", ("ADVISOR_BUDGET: no unit in '10'",)),
    "75 switch": ("ADVISOR_KEEP_BATCH", "maybe", ("ADVISOR_KEEP_BATCH: 'maybe' is not a valid boolean",)),
    "75 knob": ("ADVISOR_KNOB", "bacth_size", ("ADVISOR_KNOB: unknown knob 'bacth_size'", "batch_size?")),
    "75 storage": ("ADVISOR_STORAGE", "foo", ("'foo' is not a storage URL",)),
}
ROWS |= {
    name: Row(tune(), 2, told, untold=UNTOLD, environment={variable: value})
    for name, (variable, value, told) in VARIABLES.items()
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    return go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_setting_that_cannot_be_meant_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    assert_refused(row, here, capsys, monkeypatch)


def test_refusing_a_setting_is_quick(here: Path) -> None:
    assert_quick(ROWS, here)


def test_69_all_errors_of_a_file_are_told_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TRAINING)
    (here / "advisor.toml").write_text(
        'trails = 3\nseed = "x"\n[knob]\nnum_workers = []\nbatch_size = {low = 9, high = 3}\n'
    )
    assert say(capsys, *tune()).err.splitlines() == [
        "error: 4 things have to be corrected",
        "  advisor.toml: trails: unknown key (did you mean trials?)",
        '  advisor.toml: seed: expected an integer, got "x"',
        "  advisor.toml: knob.num_workers: no value is given "
        "(leave the knob out, or give `true` for all choices)",
        "  advisor.toml: knob.batch_size: low 9 is above high 3",
    ]


WARNED: dict[str, tuple[dict[str, str], int, str]] = {
    "76": ({"advisor.toml": "trials = 1\n", "pyproject.toml": "[tool.advisor]\ntrials = 2\n"}, 0o644,
           "warning: advisor.toml wins: [tool.advisor] in pyproject.toml is not used"),
    "77": ({"advisor.toml": "trials = 1\n"}, 0o666,
           "warning: others can change advisor.toml\n  hint: `chmod o-w advisor.toml`\n"),
    "77 of the project": ({"pyproject.toml": "[tool.advisor]\ntrials = 1\n"}, 0o666,
                          "warning: others can change pyproject.toml"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "mode", "told"), WARNED.values(), ids=WARNED)
def test_what_is_odd_about_a_file_is_warned_about_once_and_the_file_is_used(
    here: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], mode: int, told: str
) -> None:
    (here / "train.py").write_text(TRAINING)
    for name, text in files.items():
        (here / name).write_text(text)
        (here / name).chmod(mode)
    before = contents(here)
    said = say(capsys, *tune("--dry-run", "--format", "json"))
    assert said.code == 0
    assert told in said.err
    assert (said.err.count("warning:"), said.err.count("error:")) == (1, 0)
    assert json.loads(said.out)["dry_run"]["trials"] == 1
    assert contents(here) == before


COMPILED = """import torch
model = torch.nn.Linear(1, 1)

model = torch.compile(model)
model(torch.ones(1)).backward()
"""


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (("--knob", "execution"), True),
        (("--knob", "execution=compile"), True),
        (("--knob", "amp"), False),
        ((), False),
    ],
    ids=["73", "73 a value", "73 another knob", "73 no knob"],
)
def test_73_a_knob_that_the_script_already_uses_is_warned_about(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], warned: bool
) -> None:
    (here / "train.py").write_text(COMPILED)
    said = say(capsys, *tune(*words, "--dry-run"))
    assert said.code == 0
    told = 'warning: torch.compile is already called at train.py:4; listed under "not tried"\n'
    assert said.err == (told if warned else "")
