from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_profile
from served import Small, a_source

from advisor.profiles.events import Request
from advisor.tuners.accuracy.kernel_reference import KernelCheck
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.quantization import Quantization
from advisor.tuners.mechanisms.forms import checked, packages
from advisor.tuners.space.constraints import CONSTRAINTS

PRESENT = {"quantization": "none", "runtime": "torch", "execution": "eager", "int8_range": "auto"}


def test_without_optional_packages_torch_alone_quantises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: False)
    knob = Quantization()
    assert knob.choices(a_profile()) == ["none", "int8_dynamic"]
    assert "torch-advisor[torchao]" in knob.left_out(a_profile())["int8_weight_only"]


def test_with_them_every_kind_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: True)
    assert Quantization().choices(a_profile()) == Quantization().values()


def test_it_is_for_cpus() -> None:
    with pytest.raises(Refused, match="CPUs only"):
        Quantization().choices(a_gpu_profile())


def test_a_served_model_is_quantised_and_leaves_its_file(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    serve = _served(Quantization(), "int8_dynamic", tmp_path)
    pictures = source.calibration[3][0][0]
    with torch.inference_mode():
        own, other = source.root(pictures)["logits"], serve(pictures)["logits"]
    apart = ((own - other).norm() / own.norm()).item()
    assert 1e-4 < apart < 0.1
    assert {each.name for each in tmp_path.iterdir()} == {"model-int8.pt", "artefact.json"}


def test_its_reference_answers_when_asked(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    args, kwargs = source.example
    request = Request(args, kwargs, tmp_path, lambda: source.calibration)
    model = Small().eval()
    serve = Quantization().serve(model.forward, model, request, "int8_dynamic")
    pictures = source.calibration[3][0][0]
    kernel = serve(pictures)["logits"]
    request.reference.answers = True
    reference = serve(pictures)["logits"]
    assert request.reference.known
    assert 0 < (kernel - reference).norm() < 0.03 * reference.norm()
    assert not reference.equal(source.root(pictures)["logits"])


@pytest.mark.long
def test_onnx_runtime_quantises_what_it_runs(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    knob = Quantization()
    knob.prepare({**PRESENT, "quantization": "int8_static", "runtime": "onnxruntime"}, PRESENT)
    _served(knob, "int8_static", tmp_path)
    assert (tmp_path / "model-int8-static.onnx").exists()


def test_kernels_that_saturate_get_seven_bits_and_else_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checks = iter([KernelCheck(0.25, 0.01), KernelCheck(0.01, 0.01)])
    monkeypatch.setattr(checked, "compared", lambda source, form: next(checks))
    _served(Quantization(), "int8_dynamic", tmp_path)
    assert '"weight_bits": 7' in (tmp_path / "artefact.json").read_text()
    monkeypatch.setattr(checked, "compared", lambda source, form: KernelCheck(0.25, 0.01))
    with pytest.raises(Refused, match=r"25\.0% from its own dequantised reference"):
        _served(Quantization(), "int8_dynamic", tmp_path)


def test_eight_bits_that_are_asked_for_are_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checked, "compared", lambda source, form: KernelCheck(0.25, 0.01))
    knob = Quantization()
    knob.prepare({**PRESENT, "int8_range": "8"}, PRESENT)
    with pytest.raises(Refused, match="saturate"):
        _served(knob, "int8_dynamic", tmp_path)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"runtime": "aot_inductor"}, "aot_inductor takes no model"),
        ({"runtime": "onnxruntime", "quantization": "int8_weight_only"}, "language models only"),
        ({"execution": "jit_trace"}, "not scripted"),
        ({"amp": "bf16"}, "autocast"),
        ({}, ""),
    ],
)
def test_what_stands_together(changed: dict[str, str], told: str) -> None:
    config = {**PRESENT, "quantization": "int8_dynamic", **changed}
    profile = replace(a_profile(), device="cpu")
    reasons = [reason for each in CONSTRAINTS if (reason := each(config, profile))]
    assert (told in reasons[0]) if told else not reasons


def _served(knob: Quantization, value: str, folder: Path) -> Callable[..., Any]:
    source = a_source(folder)
    args, kwargs = source.example
    model = Small().eval()
    request = Request(args, kwargs, folder, lambda: source.calibration)
    return knob.serve(model.forward, model, request, value)
