import json
from pathlib import Path

from html_tree import parse, text_of
from result_builder import a_result

from advisor.report import files
from advisor.report.artefacts import keep_artefacts
from advisor.result.artefact import Artefact
from advisor.result.document import ResultData
from advisor.tuners.knob import Value
from advisor.tuners.mechanisms.forms.artefact import describe
from advisor.tuners.mechanisms.forms.form import Form

LOAD = 'import torch\nmodel = torch._inductor.aoti_load_package("model.pt2")\noutput = model(*inputs)'
PRESENT: dict[str, Value] = {"runtime": "torch", "num_threads": 2}
AHEAD: dict[str, Value] = {**PRESENT, "runtime": "aot_inductor"}


def test_files_of_the_recommended_form_are_copied_with_what_loads_them(tmp_path: Path) -> None:
    trials, out = tmp_path / "trials", tmp_path / "report"
    _process(trials, 1, {"runtime": "onnxruntime"}, b"other")
    _process(trials, 2, {"runtime": "aot_inductor"}, b"first")
    _process(trials, 3, {"runtime": "aot_inductor"}, b"last")
    out.mkdir()
    (kept,) = keep_artefacts(trials, _recommending(AHEAD), out)
    assert (kept.file, kept.kind, kept.bytes, kept.load) == ("model.pt2", "aot_inductor", 4, LOAD.split("\n"))
    assert kept.versions.keys() == {"torch"}
    assert {path.name for path in (out / "artefacts").iterdir()} == {"model.pt2", "artefact.json", "load.py"}
    assert (out / "artefacts" / "model.pt2").read_bytes() == b"last"
    assert (out / "artefacts" / "load.py").read_text() == LOAD + "\n"
    assert not list(trials.glob("*/artefacts"))


def test_each_of_several_models_has_a_folder_of_its_own(tmp_path: Path) -> None:
    trials, out = tmp_path / "trials", tmp_path / "report"
    folder = _process(trials, 1, {"runtime": "aot_inductor"}, b"detects")
    _form(folder / "model-2", b"classifies")
    out.mkdir()
    kept = keep_artefacts(trials, _recommending(AHEAD), out)
    assert sorted(each.file for each in kept) == ["model-2/model.pt2", "model.pt2"]
    assert (out / "artefacts" / "model-2" / "model.pt2").read_bytes() == b"classifies"
    assert (out / "artefacts" / "model-2" / "load.py").exists()


def test_a_recommendation_without_files_leaves_none_of_an_earlier_report(tmp_path: Path) -> None:
    trials, out = tmp_path / "trials", tmp_path / "report"
    _process(trials, 1, {"runtime": "aot_inductor"}, b"model")
    (out / "artefacts").mkdir(parents=True)
    (out / "artefacts" / "model.pt2").write_bytes(b"earlier")
    assert keep_artefacts(trials, _recommending(PRESENT), out) == []
    assert not (out / "artefacts").exists()


def test_a_standing_recommendation_keeps_its_files_while_they_are_the_same(tmp_path: Path) -> None:
    trials, out = tmp_path / "trials", tmp_path / "report"
    _process(trials, 1, {"runtime": "aot_inductor"}, b"model")
    out.mkdir()
    result = _recommending(AHEAD)
    result.artefacts = keep_artefacts(trials, result, out)
    assert keep_artefacts(trials, result, out) == result.artefacts != []
    assert (out / "artefacts" / "load.py").exists()
    (out / "artefacts" / "model.pt2").write_bytes(b"something else")
    assert keep_artefacts(trials, result, out) == []


def test_a_file_that_changed_since_is_not_passed_on(tmp_path: Path) -> None:
    trials, out = tmp_path / "trials", tmp_path / "report"
    folder = _process(trials, 1, {"runtime": "aot_inductor"}, b"model")
    (folder / "model.pt2").write_bytes(b"something else")
    out.mkdir()
    assert keep_artefacts(trials, _recommending(AHEAD), out) == []


def _recommending(config: dict[str, Value]) -> ResultData:
    result = a_result()
    result.recommendation.config = config
    return result


def _process(trials: Path, number: int, config: dict[str, str], content: bytes) -> Path:
    trial = trials / f"{number:05d}"
    trial.mkdir(parents=True)
    (trial / "trial.json").write_text(json.dumps({"config": config, "present": PRESENT}))
    return _form(trial / "artefacts", content)


def _form(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    file = folder / "model.pt2"
    file.write_bytes(content)
    assert describe(Form(print, file, LOAD, "aot_inductor"), folder) is not None
    return folder


def test_every_face_names_the_files_and_the_lines_that_load_them() -> None:
    result = a_result(
        artefacts=[
            Artefact(
                file="model.onnx", kind="onnx", sha256="ab" * 32, bytes=3 * 2**20,
                load=["import onnxruntime"], versions={"torch": "2.13.0"}, cpu_flags=["avx2"], weight_bits=7,
            )
        ]
    )  # fmt: skip
    told = (
        "artefacts/model.onnx", "an ONNX model, weights of 7 bits, 3.0 MiB",
        "torch 2.13.0 on a CPU with avx2", "ab" * 32, "import onnxruntime",
    )  # fmt: skip
    faces = {
        "text": files.render_text(result, 300),
        "markdown": files.render_markdown(result),
        "html": text_of(parse(files.render_html(result))),
    }
    assert [(face, text) for face, shown in faces.items() for text in told if text not in shown] == []
    assert "Files" not in files.render_text(a_result(), 300)
