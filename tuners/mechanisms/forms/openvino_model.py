"""A model as a file of OpenVINO, run by it where it is installed.

It would compute in bf16 by itself on CPUs that have it, and write weights of 16 bits: both are told not to.
"""

from pathlib import Path
from typing import Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import exported, fitting, restoring, sizes_of
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line
from advisor.tuners.mechanisms.forms.packages import needed

OPTIONS = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
LOADING = """import openvino
model = openvino.Core().compile_model("{name}", "CPU", {options})
outputs = model(arrays)"""


def openvino_form(source: Source) -> Form:
    """The model exported, run in 32 bits.

    Raises:
        Refused: OpenVINO is not installed, or the model cannot be exported.
    """
    import torch

    openvino: Any = needed("openvino")
    program = exported(source)
    path: Path = source.folder / "model.xml"
    options = {**OPTIONS, "INFERENCE_NUM_THREADS": str(source.threads.number)}
    try:
        openvino.save_model(openvino.convert_model(program), str(path), compress_to_fp16=False)
        compiled = openvino.Core().compile_model(str(path), "CPU", options)
    except FAILURES as error:
        raise Refused(f"openvino: {first_line(error)}") from None

    taken, restore = fitting(source.example, sizes_of(program)), restoring(program)

    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = taken((args, kwargs))
        if tensors is None:
            return source.answer(*args, **kwargs)
        found = compiled([tensor.detach().cpu().numpy() for tensor in tensors])
        outputs = [torch.from_numpy(found[place].copy()) for place in range(len(compiled.outputs))]
        return restore(outputs)

    return Form(run, path, LOADING.format(name=path.name, options=options), "openvino", ("openvino",))
