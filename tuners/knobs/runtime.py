"""Who runs a trained model: torch, code compiled ahead of time, ONNX Runtime, or OpenVINO."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.events import Request
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics, offered
from advisor.tuners.mechanisms.forms.aot_inductor import aot_inductor_form
from advisor.tuners.mechanisms.forms.artefact import describe
from advisor.tuners.mechanisms.forms.checked import answering
from advisor.tuners.mechanisms.forms.form import Source, Threads
from advisor.tuners.mechanisms.forms.onnx_model import PACKAGES, onnx_form
from advisor.tuners.mechanisms.forms.openvino_model import openvino_form
from advisor.tuners.mechanisms.forms.packages import missing
from advisor.tuners.mechanisms.forms.remembering import refuse_memory

if TYPE_CHECKING:
    from torch.nn import Module

FORMS = {"aot_inductor": aot_inductor_form, "onnxruntime": onnx_form, "openvino": openvino_form}
MAKES_S = {"aot_inductor": 28.0, "onnxruntime": 3.0, "openvino": 3.0}


class Runtime(Knob[str]):
    """Exports a trained model and has another runtime answer the requests.

    `aot_inductor` is what `torch.compile` makes, compiled once and loaded as a `.pt2` file: no process
    compiles when it starts (25.8 s to 0.03 s in pytorch 149582). The file is for this kind of CPU.
    `onnxruntime` runs an `.onnx` file. Its threads are as many as torch's and do not spin: by default it
    takes every core of the machine, and threads that spin slow torch beside it (onnxruntime 13808).
    `openvino` is tried where that is installed; it is kept from computing in bf16 on its own.

    Each runs in a process of its own, so that no other's threads take its cores. A call whose inputs have
    another form than those it was exported for is answered by the model itself.
    """

    semantics = Semantics.ROUNDING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.2
    acts_on = ("forward",)
    written = ("onnxruntime", "aoti_load_package", "openvino")

    def __init__(self) -> None:
        self._quantised = False
        self._threads = Threads()

    def values(self) -> list[str]:
        return ["torch", *FORMS]

    def present(self, profile: Profile) -> str:
        return "torch"

    def choices(self, profile: Profile) -> list[str]:
        return offered("torch", {value: _refusal(value, profile) for value in FORMS})

    def check(self, value: str, profile: Profile) -> None:
        reason = _refusal(value, profile)
        if reason:
            raise Refused(reason)

    def left_out(self, profile: Profile) -> dict[str, str]:
        refusals = {value: _refusal(value, profile) for value in FORMS}
        return {value: reason for value, reason in refusals.items() if reason}

    def prepare(self, config: Config, present: Config) -> None:
        """Learn whether ``quantization`` makes the form, and what threads the runtime is to have."""
        self._quantised = config.get("quantization", "none") != "none"
        self._threads = Threads.of(config)

    def serve(
        self, function: Callable[..., Any], root: "Module", request: Request, value: str
    ) -> Callable[..., Any]:
        """The runtime's answer in place of ``function``; of a quantised model ``quantization`` gives it.

        Raises:
            Refused: A package is missing, or the model cannot be exported or answered by it.
        """
        if self._quantised:
            return function
        source = Source.of(root, request, function, self._threads)
        refuse_memory(source)
        form = answering(source, FORMS[value](source))
        describe(form, request.folder)
        return form.call

    def makes_s(self, config: Config) -> float:
        """Here, of six small models: 27 to 32 s to compile ahead of time, 2 to 4 s to export and load."""
        return MAKES_S.get(str(config["runtime"]), 0.0)

    def change(self, value: str) -> Change:
        match value:
            case "aot_inductor":
                return Change('model = torch._inductor.aoti_load_package("model.pt2")  # the artefact')
            case "onnxruntime":
                return Change('session = onnxruntime.InferenceSession("model.onnx")  # the artefact')
            case "openvino":
                return Change('model = openvino.Core().compile_model("model.xml", "CPU")  # the artefact')
        return Change("# call the model as it is")


def _refusal(value: str, profile: Profile) -> str | None:
    if value == "torch":
        return None
    if profile.device.startswith("cuda"):
        return "runtimes are tried on CPUs only"
    if value == "aot_inductor":
        return None if profile.machine.has_compiler else "no C++ compiler was found, which AOTInductor needs"
    return missing("openvino") if value == "openvino" else missing(*PACKAGES)
