"""Convolutions and linear layers with 8 bits by torchao's quantisation of exported programs, compiled.

What it makes runs in floating point until it is compiled: that is the reference of its kernels.
"""

import warnings
from typing import Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import exported, fits, fitting, sizes_of
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line
from advisor.tuners.mechanisms.forms.packages import needed

FEWEST = 8  # calls by which a range is known at all
QUANTIZER = "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer"
LOADING = """import torch, torchao.quantization.pt2e
program = torch.export.load("{name}")
model = torch.compile(program.module())"""


def pt2e_int8_form(source: Source, *, bits: int = 8) -> Form:
    """The model with ranges of activations measured on the calibration.

    Args:
        source: The model.
        bits: 8, or 7 for weights whose products cannot saturate 16 bits.

    Raises:
        Refused: torchao is missing, there is no calibration, or the model cannot be exported.
    """
    import torch

    calls = [call for call in source.calibration if fits(source.example, call)]
    if len(calls) < FEWEST:
        raise Refused(
            f"{len(calls)} samples to calibrate with; {FEWEST} at least are needed (calibration=...)"
        )
    steps: Any = needed("torchao.quantization.pt2e.quantize_pt2e")
    x86: Any = needed(QUANTIZER)
    program = exported(source)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            quantizer = x86.X86InductorQuantizer()
            quantizer.set_global(x86.get_default_x86_inductor_quantization_config(reduce_range=bits == 7))
            prepared = steps.prepare_pt2e(program.module(), quantizer)
            for args, kwargs in calls:
                prepared(*args, **kwargs)
            converted = steps.convert_pt2e(prepared)
    except FAILURES as error:
        raise Refused(f"torchao.quantization.pt2e: {first_line(error)}") from None
    args, kwargs = source.example
    path = source.folder / "model-int8-static.pt2"
    saved: Any = torch.export.export(converted, args, kwargs)
    save: Any = torch.export.save
    save(saved, path)
    compiled, taken = _compiled(converted), fitting(source.example, sizes_of(program))

    def run(*given: Any, **named: Any) -> Any:
        if taken((given, named)) is None:
            return source.answer(*given, **named)
        return compiled(*given, **named)

    return Form(run, path, LOADING.format(name=path.name), "exported_program", ("torchao",), converted)


def _compiled(model: Any) -> Any:
    """Compiled at its first call, with weights folded into the code: only that fuses the integer kernels."""
    import torch
    from torch._inductor import config

    patch: Any = config.patch
    compiled: Any = torch.compile(model)

    def run(*args: Any, **kwargs: Any) -> Any:
        with patch(freezing=True), torch.no_grad():
            return compiled(*args, **kwargs)

    return run
