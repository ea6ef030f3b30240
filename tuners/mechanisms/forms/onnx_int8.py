"""An ONNX file with weights of 8 bits, made after export: a model quantised before cannot be exported.

``dynamic`` measures the range of activations in each request, which suits transformers and recurrent models;
``static`` measures it once, on the calibration, which suits convolutions.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from advisor.profiles.events import Inputs
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import fits, leaves
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line
from advisor.tuners.mechanisms.forms.onnx_model import PACKAGES, loading, onnx_file, running
from advisor.tuners.mechanisms.forms.onnx_reference import in_floating_point
from advisor.tuners.mechanisms.forms.packages import needed

FEWEST = 8  # calls by which a range is known at all


def onnx_int8_form(source: Source, kind: str, *, bits: int = 8) -> Form:
    """The model exported and quantised.

    Args:
        source: The model.
        kind: ``dynamic`` or ``static``.
        bits: 8, or 7 for weights whose products cannot saturate 16 bits.

    Raises:
        Refused: A package is missing, there is no calibration for ``static``, or the model cannot be taken.
    """
    calls = [call for call in source.calibration if fits(source.example, call)]
    if kind == "static" and len(calls) < FEWEST:
        raise Refused(
            f"{len(calls)} samples to calibrate with; {FEWEST} at least are needed (calibration=...)"
        )
    program, path = onnx_file(source)
    quantization: Any = needed("onnxruntime.quantization")
    prepared = source.folder / "model-prepared.onnx"
    quantised = source.folder / f"model-int8-{kind}.onnx"
    prepare: Any = needed("onnxruntime.quantization.shape_inference").quant_pre_process
    shared = {"reduce_range": bits == 7, "weight_type": quantization.QuantType.QInt8}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepare(path, prepared, skip_symbolic_shape=True)  # joins what is to be quantised as one
            if kind == "dynamic":
                quantization.quantize_dynamic(prepared, quantised, **shared)
            else:
                reader = _reader(quantization, _input_names(prepared), calls)
                quantization.quantize_static(prepared, quantised, reader, per_channel=True, **shared)
    except FAILURES as error:
        raise Refused(f"onnxruntime.quantization: {first_line(error)}") from None
    prepared.unlink()
    path.unlink()
    plain = in_floating_point(quantised)
    return Form(
        running(program, quantised, source),
        quantised,
        loading(quantised, source.threads),
        "onnx",
        PACKAGES,
        None if plain is None else running(program, plain, source, optimized=False),
    )


def _input_names(path: Path) -> list[str]:
    onnx: Any = needed("onnx")
    return [each.name for each in onnx.load(str(path), load_external_data=False).graph.input]


def _reader(quantization: Any, names: Sequence[str], calls: Sequence[Inputs]) -> Any:
    """The calibration as the quantiser reads it."""
    feeds: Iterator[dict[str, Any]] = (
        {name: leaf.detach().cpu().numpy() for name, leaf in zip(names, leaves(call), strict=True)}
        for call in calls
    )

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]  # known when it is installed
        """One call at a time."""

        def get_next(self) -> dict[str, Any] | None:
            """The next one's inputs by name."""
            return next(feeds, None)

    return Reader()
