import json
from pathlib import Path

import pytest
import torch
from builders import a_profile, a_rich_profile
from served import Small, a_source

from advisor.profiles.events import Request
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.knobs.allow_spinning import AllowSpinning
from advisor.tuners.knobs.runtime import Runtime
from advisor.tuners.mechanisms.forms import packages
from advisor.tuners.space.form_constraints import OF_TORCH, inert_beside


def test_it_is_tried_where_onnx_runtime_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: name == "onnxruntime")
    assert AllowSpinning().choices(a_profile()) == ["off", "on"]
    monkeypatch.setattr(packages, "installed", lambda name: name == "openvino")
    with pytest.raises(Refused, match="onnxruntime is not installed"):
        AllowSpinning().choices(a_rich_profile())


def test_it_is_refused_where_another_runtime_answers(tmp_path: Path) -> None:
    knob, model, request = AllowSpinning(), torch.nn.ReLU(), Request((), {}, tmp_path)
    knob.prepare({"runtime": "openvino"}, {})
    with pytest.raises(Refused, match="does not run the model"):
        knob.serve(model.forward, model, request, "on")


def test_beside_another_runtime_threads_go_back_to_their_present_setting() -> None:
    both = ("intra_op_num_threads", "allow_spinning")
    assert inert_beside({"runtime": "torch"}) == both == inert_beside({})
    assert inert_beside({"runtime": "openvino"}) == (*OF_TORCH, "allow_spinning")
    assert inert_beside({"runtime": "onnxruntime"}) == OF_TORCH
    assert {KNOBS[name].follows for name in both} == {"runtime"}


def test_the_session_and_the_lines_that_load_it_have_the_threads_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    source, model, knob = a_source(tmp_path), Small().eval(), Runtime()
    knob.prepare({"runtime": "onnxruntime", "intra_op_num_threads": 2, "allow_spinning": "on"}, {})
    args, kwargs = source.example
    request = Request(args, kwargs, tmp_path, lambda: source.calibration)
    serve = knob.serve(model.forward, model, request, "onnxruntime")
    with torch.inference_mode():
        assert torch.allclose(model(*args, **kwargs)["logits"], serve(*args, **kwargs)["logits"], atol=1e-5)
    loading = "\n".join(json.loads((tmp_path / "artefact.json").read_text())["load"])
    assert "intra_op_num_threads = 2" in loading and 'allow_spinning", "1"' in loading
