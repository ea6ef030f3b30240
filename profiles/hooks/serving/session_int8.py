"""A session with layers of 8 bits, held beside the same model computed in float32."""

import importlib
from pathlib import Path
from typing import Any

from advisor.profiles.facts.served import Int8Facts
from advisor.profiles.hooks.serving.int8_layers import has_units

PAIRS = b"DequantizeLinear"  # around products that stay float32 unless they are fused
INTEGER = (b"MatMulInteger", b"ConvInteger", b"QLinear")  # products that have no other form
LARGEST = 1 << 30  # bytes of a model that is read again


def int8_session(session: Any, feed: Any) -> Int8Facts | None:
    """How right a session's kernels of 8 bits are; ``None`` where it has none that can be told.

    A model in the form of pairs (quantize, dequantize) multiplies in float32 where nothing is fused: that is
    the reference. Its time says nothing.
    """
    model = _model_of(session)
    if model is None or PAIRS not in model or any(name in model for name in INTEGER):
        return None
    import numpy

    onnxruntime: Any = importlib.import_module("onnxruntime")  # it has no types
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    squared = size = 0.0
    for kernel, reference in zip(session.run(None, feed), plain.run(None, feed), strict=True):
        squared += float(numpy.square(kernel - reference, dtype="float64").sum())
        size += float(numpy.square(reference, dtype="float64").sum())
    if not size:
        return None
    return Int8Facts(model.count(PAIRS), (squared / size) ** 0.5, "", 0.0, 0.0, has_units())


def _model_of(session: Any) -> bytes | None:
    held: bytes | None = getattr(session, "_model_bytes", None)
    path = getattr(session, "_model_path", None)
    if held is not None or path is None:
        return held
    file = Path(path)
    return file.read_bytes() if file.is_file() and file.stat().st_size < LARGEST else None
