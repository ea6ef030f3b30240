import json
from pathlib import Path

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile
from served import Small, a_source

from advisor.profiles.events import Request
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.runtime import Runtime
from advisor.tuners.mechanisms.forms import packages
from advisor.tuners.space.constraints import CONSTRAINTS


def test_what_lacks_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: False)
    told = Runtime().left_out(a_profile(a_machine(has_compiler=False)))
    assert "C++ compiler" in told["aot_inductor"]
    assert 'pip install "torch-advisor[inference]"' in told["onnxruntime"]
    assert told["openvino"] == "openvino is not installed: pip install openvino"


def test_what_is_there_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: True)
    assert Runtime().choices(a_profile(a_machine(has_compiler=True))) == Runtime().values()
    with pytest.raises(Refused, match="CPUs only"):
        Runtime().choices(a_gpu_profile())


@pytest.mark.long
def test_onnx_runtime_answers_as_the_model_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    source, model = a_source(tmp_path), Small().eval()
    args, kwargs = source.example
    request = Request(args, kwargs, tmp_path, lambda: source.calibration)
    serve = Runtime().serve(model.forward, model, request, "onnxruntime")
    with torch.inference_mode():
        own, other = model(*args, **kwargs), serve(*args, **kwargs)
    assert torch.allclose(own["logits"], other["logits"], atol=1e-5)
    assert json.loads((tmp_path / "artefact.json").read_text())["file"] == "model.onnx"


def test_a_quantised_model_is_left_to_its_own_knob(tmp_path: Path) -> None:
    model, knob = Small().eval(), Runtime()
    knob.prepare({"quantization": "int8_dynamic", "runtime": "onnxruntime"}, {})
    assert knob.serve(model.forward, model, Request((), {}, tmp_path), "onnxruntime") == model.forward


def test_another_runtime_runs_its_own_code_in_one_precision() -> None:
    profile = a_profile()
    for other in ({"execution": "compile"}, {"amp": "bf16"}):
        config = {"runtime": "onnxruntime", "execution": "eager", **other}
        assert [reason for each in CONSTRAINTS if (reason := each(config, profile))]
