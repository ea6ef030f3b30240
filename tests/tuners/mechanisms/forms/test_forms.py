"""What holds for every form."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from served import Small, a_source

from advisor.profiles.events import Inputs, Request
from advisor.tuners.accuracy.kernel_reference import kernel_check
from advisor.tuners.accuracy.outputs import flattened
from advisor.tuners.accuracy.validity import invalid
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms import packages
from advisor.tuners.mechanisms.forms.aot_inductor import aot_inductor_form
from advisor.tuners.mechanisms.forms.artefact import describe, sha256
from advisor.tuners.mechanisms.forms.checked import answering, compared
from advisor.tuners.mechanisms.forms.form import Form, Source, first_line
from advisor.tuners.mechanisms.forms.onnx_int8 import onnx_int8_form
from advisor.tuners.mechanisms.forms.onnx_model import onnx_form
from advisor.tuners.mechanisms.forms.pt2e_int8 import pt2e_int8_form
from advisor.tuners.mechanisms.forms.torch_int8 import torch_int8_form
from advisor.tuners.mechanisms.forms.torchao_int8 import torchao_int8_form

Make = Callable[[Source], Form]
MAKE: dict[str, tuple[Make, tuple[str, ...]]] = {
    "onnx": (onnx_form, ("onnxruntime",)),
    # 7 bits, since with 8 they saturate on some CPUs
    "onnx, dynamic, 7 bits": (lambda source: onnx_int8_form(source, "dynamic", bits=7), ("onnxruntime",)),
    "onnx, static, 7 bits": (lambda source: onnx_int8_form(source, "static", bits=7), ("onnxruntime",)),
    "torch": (torch_int8_form, ()),
    "torchao, dynamic": (
        lambda source: torchao_int8_form(source, "dynamic", compiled=False),
        ("torchao",),
    ),
    "torchao, weight only": (
        lambda source: torchao_int8_form(source, "weight_only", compiled=False),
        ("torchao",),
    ),
}
SLOW: dict[str, tuple[Make, tuple[str, ...]]] = {  # they compile
    "AOTInductor": (aot_inductor_form, ()),
    "pt2e, 7 bits": (lambda source: pt2e_int8_form(source, bits=7), ("torchao",)),
}


def cases(*quick: str) -> list[Any]:
    """Every form; those that are exported or compiled first, for seconds each, are long but for ``quick``."""
    return [
        pytest.param(*each, id=name, marks=() if name in quick or not is_long(name) else pytest.mark.long)
        for name, each in (MAKE | SLOW).items()
    ]


def is_long(name: str) -> bool:
    return name in SLOW or name.startswith("onnx")


@pytest.mark.parametrize(("make", "needs"), cases("onnx, static, 7 bits"))
def test_a_form_says_what_the_model_says_and_leaves_a_file(
    make: Make, needs: tuple[str, ...], tmp_path: Path
) -> None:
    for package in needs:
        pytest.importorskip(package)
    source = a_source(tmp_path)
    with torch.inference_mode():
        form = make(source)
        calls = [source.example, *source.calibration]
        own = [flattened(source.root(*args, **kwargs)) for args, kwargs in calls]
        other = [flattened(form.call(*args, **kwargs)) for args, kwargs in calls]
        reference = form.reference or source.root
        plain = [flattened(reference(*args, **kwargs)) for args, kwargs in calls]
    assert invalid(own, other) is None
    check = kernel_check(own, plain, other)
    assert not check.saturated and check.quantisation < 0.05
    assert form.reference is None or check.quantisation > 1e-4  # else nothing was quantised
    written = describe(form, tmp_path)
    assert written is not None and form.file is not None
    told = json.loads(written.read_text())
    assert told["file"] == form.file.name and told["sha256"] == sha256(form.file)
    assert len(told["load"]) == 3 and form.file.name in "".join(told["load"])
    assert told["versions"].keys() == {"torch", *form.packages}


@pytest.mark.parametrize(("make", "needs"), cases("onnx"))
def test_its_lines_load_what_was_measured(
    make: Make, needs: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in needs:
        pytest.importorskip(package)
    whole = a_source(tmp_path)
    calls: list[Inputs] = [(args, {}) for args, _ in whole.calibration]
    source = replace(whole, example=calls[0], calibration=calls)
    (pictures,) = source.example[0]
    monkeypatch.chdir(tmp_path)
    with torch.inference_mode():
        form = make(source)
        known: dict[str, Any] = {
            "model": source.copied(), "inputs": (pictures,), "arrays": [pictures.numpy()]
        }  # fmt: skip
        exec(form.loading, known)
        measured = numbers(form.call(pictures))
        model = getattr(known["model"], "_orig_mod", known["model"])  # as it is before it is compiled
        loaded = known.get("outputs") or known.get("output") or model(pictures)
    np.testing.assert_allclose(numbers(loaded), measured, rtol=0.05, atol=0.02)


def numbers(output: Any) -> Any:
    return np.concatenate([leaf.values.ravel() for leaf in flattened(output).values()])


@pytest.mark.parametrize("name", ["onnx", pytest.param("onnx, static, 7 bits", marks=pytest.mark.long)])
def test_a_call_of_another_form_is_answered_by_the_model(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    source = a_source(tmp_path)
    form = MAKE[name][0](source)
    pictures = torch.rand(1, 3, 8, 8)
    with torch.inference_mode():
        assert torch.equal(form.call(pictures)["logits"], source.root(pictures)["logits"])


def test_without_a_calibration_no_range_is_measured(tmp_path: Path) -> None:
    source = a_source(tmp_path, samples=3)
    with pytest.raises(Refused, match="3 samples to calibrate with"):
        onnx_int8_form(source, "static")
    with pytest.raises(Refused, match="calibration="):
        pt2e_int8_form(source)


def test_a_model_without_the_layers_is_refused(tmp_path: Path) -> None:
    bare = Source(torch.nn.ReLU(), ((torch.ones(3),), {}), tmp_path)
    for make in (torch_int8_form, lambda source: torchao_int8_form(source, "dynamic")):
        with pytest.raises(Refused, match="no linear"):
            make(bare)


class Encoder(torch.nn.Module):
    """Encoder layers, which in inference a fused kernel answers for that reads weights in floating point."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, **options)
        self.layers = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, inputs: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Padded places are set to zero, as a fused kernel leaves them."""
        output: torch.Tensor = self.layers(inputs, src_key_padding_mask=padding)
        return output if padding is None else output.masked_fill(padding[..., None], 0.0)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_layers_of_an_encoder_are_quantised_though_a_fused_kernel_answers_for_them(
    options: dict[str, Any], padded: bool, tmp_path: Path
) -> None:
    model = Encoder(**options).eval()
    padding = torch.tensor([[False] * 8, [False] * 5 + [True] * 3])
    call: Inputs = ((torch.rand(2, 8, 32), *([padding] if padded else [])), {})
    source = Source(model, call, tmp_path)
    form = torch_int8_form(source)
    check = compared(source, form)
    assert check is not None and not check.saturated and 1e-4 < check.quantisation < 0.1
    loaded: dict[str, Any] = {"model": Encoder(**options).eval()}
    exec(form.loading.replace(form.file.name, str(form.file)), loaded)  # type: ignore[union-attr]
    with torch.inference_mode():
        assert torch.equal(loaded["model"](*call[0]), form.call(*call[0]))


def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: False)
    with pytest.raises(Refused, match=r'pip install "torch-advisor\[inference\]"'):
        onnx_form(a_source(tmp_path))
    with pytest.raises(Refused, match=r'pip install "torch-advisor\[torchao\]"'):
        torchao_int8_form(a_source(tmp_path), "dynamic")


def test_of_a_watched_class_its_own_forward_is_compiled(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    own = Small.forward
    model = source.root
    bound = model.forward
    request = Request(*source.example, tmp_path)
    for function in (bound, torch.compile(bound)):
        assert Source.of(model, request, function).forward is own
    assert Source.of(model, request, print).forward is None
    layers = torch.nn.Sequential(torch.nn.Linear(4, 2)).eval()
    for function in (layers.forward, torch.compile(layers.forward)):
        assert Source.of(layers, request, function).forward is torch.nn.Sequential.forward


def test_hooks_of_the_model_itself_are_not_called_twice(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    source.root.register_forward_pre_hook(lambda _, inputs: inputs)
    with pytest.raises(Refused, match="hooks of its own"):
        torch_int8_form(source)


def test_of_torchscript_no_form_is_made(tmp_path: Path) -> None:
    scripted = torch.jit.script(torch.nn.Linear(4, 4))
    with pytest.raises(Refused, match="the model is TorchScript"):
        Source.of(scripted, Request((torch.ones(1, 4),), {}, tmp_path, list), scripted)


def test_a_form_that_cannot_answer_is_refused_before_it_is_served(tmp_path: Path) -> None:
    source = a_source(tmp_path)

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("expected scalar type Float but found Half")

    for check in (answering, compared):
        with pytest.raises(Refused, match="it cannot answer: RuntimeError: expected scalar type"):
            check(source, Form(failing, None, "", "onnx"))


def test_a_reason_is_that_of_what_failed_first_without_colours() -> None:
    try:
        try:
            raise ValueError("\x1b[96mno such operator\x1b[0m: nms\nand more")
        except ValueError as error:
            raise RuntimeError("step 3 of 3") from error
    except RuntimeError as error:
        assert first_line(error) == "ValueError: no such operator: nms"
