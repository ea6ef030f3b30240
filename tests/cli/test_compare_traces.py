"""What ``advisor compare`` prints of two trace files, and what it refuses."""

import gzip
import json
from pathlib import Path

import pytest
from command_line import HEAVY, go_to, loaded_by, say
from result_builder import a_result
from warm import Warm

GPU = Path(__file__).parents[1] / "profiles" / "traces" / "gpu"
H100 = str(GPU / "h100_gaunernst_bert-small-uncased__1016001.json.gz")
MI300 = str(GPU / "mi300_gaunernst_bert-small-uncased__1016001.json.gz")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    (tmp_path / "result.json").write_text(a_result().to_json())
    (tmp_path / "cut.json").write_text('{"traceEvents": [{"ph": "X", "ts"')
    return tmp_path


def test_two_traces_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", H100, MI300)
    assert said.code == 0, said.err
    assert said.out.startswith("A step takes 0.91x as long in B as in A")
    assert "NVIDIA H100 80GB HBM3" in said.out and "AMD Instinct MI300X VF" in said.out
    assert "aten::_flash_attention_forward" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_a_trace_is_known_by_its_content(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plain.json").write_bytes(gzip.decompress(Path(MI300).read_bytes()))
    said = say(capsys, "compare", H100, "plain.json", "--format", "json")
    document = json.loads(said.out)
    assert said.code == 0 and document["schema_version"] == 1
    assert document["b"]["name"] == "plain.json" and document["a"]["device"] == "NVIDIA H100 80GB HBM3"
    kinds = {each["name"]: each["difference_ms"] for each in document["kinds"]}
    assert kinds["attention"] == pytest.approx(0.1137 - 0.0374, abs=2e-4)


def test_markdown_is_printed_for_copying(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "compare", H100, MI300, "--format", "md")
    assert said.code == 0 and said.out.startswith("<!-- advisor compare -->\n**A step takes")


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        ((H100, H100), ("the same trace twice",)),
        ((H100, "result.json"), ("is a trace, the other one is none", "two traces or two results")),
        ((H100, "cut.json"), ("cut.json",)),
        ((H100, "nosuch.json.gz"), ("nosuch.json.gz: no such file",)),
    ],
    ids=["twice", "a result", "broken", "missing"],
)
def test_what_cannot_be_compared_is_refused(
    capsys: pytest.CaptureFixture[str], names: tuple[str, str], texts: tuple[str, ...]
) -> None:
    said = say(capsys, "compare", *names)
    assert said.code == 2 and said.out == ""
    assert all(text in said.err for text in texts)
    assert said.blocks == 1 and "Traceback" not in said.err


def test_nothing_heavy_is_loaded(here: Path, light: Warm) -> None:
    code, loaded = loaded_by(light, "compare", H100, MI300, cwd=here)
    assert code == 0 and not loaded & set(HEAVY)


def test_the_page_needs_nothing_else_and_escapes_names(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = gzip.decompress(Path(MI300).read_bytes())
    (here / "b.json").write_bytes(content.replace(b"aten::addmm", b"<b>addmm"))
    said = say(capsys, "compare", H100, "b.json", "--format", "html")
    assert said.code == 0 and said.out.startswith("<!DOCTYPE html>")
    assert "http" not in said.out.replace("http-equiv", "")
    assert "&lt;b&gt;addmm" in said.out and "<b>addmm" not in said.out
    for part in ("One step, on the device", "Kernels by what they do", "Operators that make the difference"):
        assert part in said.out
