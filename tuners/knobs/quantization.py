"""Weights of 8 bits in a trained model."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.events import Request
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics, offered
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.mechanisms.forms.artefact import describe
from advisor.tuners.mechanisms.forms.checked import checked_form
from advisor.tuners.mechanisms.forms.form import Form, Source, Threads
from advisor.tuners.mechanisms.forms.onnx_int8 import onnx_int8_form
from advisor.tuners.mechanisms.forms.packages import missing
from advisor.tuners.mechanisms.forms.pt2e_int8 import pt2e_int8_form
from advisor.tuners.mechanisms.forms.remembering import refuse_memory
from advisor.tuners.mechanisms.forms.torch_int8 import torch_int8_form
from advisor.tuners.mechanisms.forms.torchao_int8 import torchao_int8_form

if TYPE_CHECKING:
    from torch.nn import Module

KINDS = ("int8_dynamic", "int8_static", "int8_weight_only")
COMPILED_S = 14.0
SNIPPETS = {
    "int8_dynamic": "model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})"
    "  # artefacts/load.py has all it takes",
    "int8_static": "model = torch.compile(torch.export.load('model-int8-static.pt2').module())"
    "  # the artefact",
    "int8_weight_only": "torchao.quantization.quantize_(model, torchao.quantization.Int8WeightOnlyConfig())",
}


class Quantization(Knob[str]):
    """Computes products of a trained model with weights, and mostly activations, of 8 bits.

    `int8_dynamic` measures the range of activations in each request: right for transformers and recurrent
    models. `int8_static` measures it once, on samples on which nothing is judged: right for convolutions.
    `int8_weight_only` only makes weights smaller, which pays where reading them takes the time.

    Who computes it follows from the rest: ONNX Runtime under `runtime=onnxruntime`; else torch itself for
    `int8_dynamic`, torchao where the model is compiled and for the other two.

    Published: 1.2 to 2.0 times on AVX2, 1.7 to 3.8 with VNNI; but also 2.6 times slower
    (onnxruntime 16009), 10 times (12854), 3.3 times (pytorch 136094). On CPUs without VNNI most kernels
    saturate: they are wrong by 10 to 25 %, which no framework notices. Each is therefore held beside its own
    dequantised reference before it is measured, and takes weights of 7 bits where that fails (`int8_range`).
    What it loses is judged on samples that it has not seen, by the metric where there is one (`--max-loss`).
    """

    semantics = Semantics.PRECISION
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.3
    acts_on = ("forward",)
    written = ("quantize_dynamic", "quantize_")

    def __init__(self) -> None:
        self._range = "auto"
        self._onnx = self._compiled = False
        self._threads = Threads()

    def values(self) -> list[str]:
        return ["none", *KINDS]

    def present(self, profile: Profile) -> str:
        return "none"

    def choices(self, profile: Profile) -> list[str]:
        return offered("none", {kind: _refusal(kind, profile) for kind in KINDS})

    def check(self, value: str, profile: Profile) -> None:
        reason = _refusal(value, profile)
        if reason:
            raise Refused(reason)

    def left_out(self, profile: Profile) -> dict[str, str]:
        refusals = {kind: _refusal(kind, profile) for kind in KINDS}
        return {kind: reason for kind, reason in refusals.items() if reason}

    def prepare(self, config: Config, present: Config) -> None:
        """Take over what other knobs say: who runs the model, and how many bits weights have."""
        self._range = str(config.get("int8_range", "auto"))
        self._onnx = config.get("runtime") == "onnxruntime"
        self._compiled = compiles(config)
        self._threads = Threads.of(config)

    def serve(
        self, function: Callable[..., Any], root: "Module", request: Request, value: str
    ) -> Callable[..., Any]:
        """The quantised model in place of ``function``.

        Raises:
            Refused: A package is missing, the model cannot be quantised so, or no kernel here is right.
        """
        source = Source.of(root, request, function, self._threads)
        if self._onnx or value == "int8_static":  # of an export
            refuse_memory(source)
        form, bits = checked_form(source, lambda bits: self._form(source, value, bits), self._range)
        describe(form, request.folder, bits)
        if form.reference is None:
            return form.call
        return request.reference.beside(form.call, form.reference)

    def makes_s(self, config: Config) -> float:
        """Here, of six small models: 12 to 19 s where torchao's form is compiled, 1 s elsewhere."""
        value = config["quantization"]
        onnx = config.get("runtime") == "onnxruntime"
        return COMPILED_S if value in ("int8_static", "int8_weight_only") and not onnx else 0.0

    def change(self, value: str) -> Change:
        if value == "none":
            return Change("# call the model as it is")
        return Change(SNIPPETS[value])

    def _form(self, source: Source, value: str, bits: int) -> Form:
        kind = value.removeprefix("int8_")
        if self._onnx:
            return onnx_int8_form(source, kind, bits=bits)
        if kind == "static":
            return pt2e_int8_form(source, bits=bits)
        if kind == "dynamic" and not self._compiled:
            return torch_int8_form(source)
        return torchao_int8_form(source, kind, bits=bits)


def _refusal(value: str, profile: Profile) -> str | None:
    if value == "none":
        return None
    if profile.device.startswith("cuda"):
        return "kernels of 8 bits are tried on CPUs only"
    if value == "int8_dynamic":
        return None
    if value == "int8_static":
        return missing("torchao") and missing("onnx", "onnxruntime", "onnxscript")
    return missing("torchao")
