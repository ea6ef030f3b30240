"""What ``advisor compare`` takes, prints and refuses."""

import json
from pathlib import Path

import pytest
from builders import a_machine
from command_line import HEAVY, assert_told_once, contents, go_to, loaded_by, say
from result_builder import MACHINE, a_keep, a_profile_result, a_result
from warm import Warm

from advisor.report.files import write_report
from advisor.storage.contract import study_contract
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    write_report(a_result(), tmp_path / "old")
    (tmp_path / "new.json").write_text(a_keep().to_json())
    (tmp_path / "copy.json").write_text(a_result().to_json())
    (tmp_path / "profile.json").write_text(a_profile_result().to_json())
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "words.json").write_text("hello")
    (tmp_path / "deep.json").write_text("[" * 200_000)
    for name, gpu in (("a100.json", "A100"), ("h100.json", "H100")):
        machine = MACHINE | {"gpus": [{"name": gpu}], "fingerprint": gpu}
        (tmp_path / name).write_text(a_result(machine=machine).to_json())
    with Store.open(
        parse_storage("sqlite:///.advisor/studies.db"), create=True, warn=lambda text: None
    ) as store:
        for name in ("train", "begun"):
            contract = study_contract(
                objective="goodput", direction="maximize", space={}, target="train.py", files={},
                machine=a_machine(), advisor_version="0.1.0",
            )  # fmt: skip
            store.create_study(name, contract)
        store.save_result("train", a_result())
    return tmp_path


def test_two_results_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", "old", "new.json")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "Time of a step: no clear difference (0.96 to 1.04)."
    assert "A: old (tune, 2026-11-20T11:12:00+00:00)" in lines
    assert any(line.split() == ["what", "A", "B"] for line in lines)
    assert "They were not interleaved" in " ".join(lines)
    assert all(len(line) <= 80 for line in lines)


def test_a_study_is_taken_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", "train", "new.json", "--format", "json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert (document["a"]["name"], document["b"]["name"]) == ("train", "new.json")
    assert document["step_ratio"]["low"] < 1 < document["step_ratio"]["high"]


def test_markdown_is_printed_for_copying(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", "old", "profile.json", "--format", "md")
    assert said.code == 0, said.err
    assert said.out.startswith("<!-- advisor compare -->\n**")


REFUSED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "none": ((), 2, ("Missing argument 'A'.", "`advisor compare old-report advisor-report`")),
    "one": (("old",), 2, ("Missing argument 'B'.",)),
    "three": (("old", "new.json", "copy.json"), 2, ("got an unexpected extra argument (copy.json)",)),
    "35 no such file": (("old", "nosuch.json"), 2, ("nosuch.json: no such file",)),
    "35 not a result": (("old", "notes.json"), 2,
                        ("notes.json is not a result of advisor (no schema_version)",)),
    "not JSON": (("old", "words.json"), 2, ("words.json is not JSON",)),
    "too deep": (("old", "deep.json"), 2, ("deep.json",)),
    "too long": (("old", "x/" + "y" * 5000), 2, ("cannot read", "file name too long")),
    "NUL": (("old", "a\0b"), 2, ("no such file",)),
    "empty": (("old", ""), 2, ("study",)),
    "38": (("old", "new.json", "--format", "xml"), 2, ("'xml' is not one of 'text', 'json', 'md', 'html'",)),
    "46": (("old", "trian"), 2, ("no study 'trian'", "train")),
    "50": (("old", "begun"), 4, ("nothing measured yet",)),
    "51 twice": (("old", "old"), 2, ("the same result twice: old and old",)),
    "51 a copy": (("old", "copy.json"), 2, ("the same result twice: old and copy.json",)),
    "51 another machine": (("a100.json", "h100.json"), 2, ("not comparable: A100 and H100",)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "texts"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_refused_with_the_reason(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    texts: tuple[str, ...],
) -> None:
    before = contents(here)
    said = say(capsys, "compare", *arguments)
    assert_told_once(said, code, texts)
    assert said.out == ""
    assert contents(here).keys() == before.keys()


def test_a_refusal_is_json_when_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", "a100.json", "h100.json", "--format", "json")
    error = json.loads(said.out)["error"]
    assert (said.code, error["code"], error["exit_code"]) == (2, "not_comparable", 2)
    assert error["hint"]


def test_both_wrong_names_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", "one.json", "other.json")
    assert said.code == 2
    assert said.err.startswith("error: 2 things have to be corrected\n")
    assert "one.json: no such file" in said.err and "other.json: no such file" in said.err


@pytest.mark.parametrize("format", ["text", "json", "md", "html"])
def test_nothing_heavy_is_loaded(here: Path, light: Warm, format: str) -> None:
    code, loaded = loaded_by(light, "compare", "train", "new.json", "--format", format, cwd=here)
    assert code == 0 and not loaded & set(HEAVY)
