"""Sessions of ONNX Runtime: how they are made, what a request is, and whether their int8 is right."""

import importlib
from pathlib import Path
from typing import Any

import numpy
import pytest
from answering import answering

import advisor

onnx: Any = pytest.importorskip("onnx")
onnxruntime: Any = pytest.importorskip("onnxruntime")


def a_model(file: Path, side: int = 256) -> Path:
    """One layer, written to a file."""
    helper, numbers = onnx.helper, numpy.random.default_rng(0)
    weight = numbers.uniform(-1 / 16, 1 / 16, (side, side)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", side])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", side])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


def quantized(file: Path, **options: Any) -> Path:
    """The same with weights and activations of 8 bits, as pairs around each product."""
    quantization: Any = importlib.import_module("onnxruntime.quantization")

    class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            numbers = numpy.random.default_rng(1).uniform(-1, 1, (8, 32, 256)).astype("float32")
            self._left = [{"x": rows} for rows in numbers]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    kept = file.with_name("int8.onnx")
    quantization.quantize_static(file, kept, Samples(), per_channel=True, **options)
    return kept


def rows() -> Any:
    return numpy.random.default_rng(2).uniform(-1, 1, (4, 256)).astype("float32")


def test_a_call_of_a_session_is_a_request_and_its_threads_are_known(tmp_path: Path) -> None:
    file = str(a_model(tmp_path / "model.onnx"))
    with answering() as seen:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        for chosen in (options, None):
            session = onnxruntime.InferenceSession(file, chosen, providers=["CPUExecutionProvider"])
        for _ in range(5):
            session.run(None, {"x": rows()})
        with advisor.request():
            session.run(None, {"x": rows()})
    assert len(seen.steps) == 6
    told, usual = seen.served.sessions
    assert (told.threads, told.spinning, usual.threads, usual.spinning) == (3, False, 0, True)
    assert told.location is not None and told.location.file == __file__


@pytest.mark.parametrize("reduced", [True, False])
def test_a_session_of_8_bits_is_held_beside_float32(reduced: bool, tmp_path: Path) -> None:
    file = quantized(a_model(tmp_path / "model.onnx"), reduce_range=reduced)
    with answering() as seen:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        with seen.inspected():
            session.run(None, {"x": rows()})
    found = seen.served.int8
    assert found is not None and not found.float32_ms
    if reduced or found.vnni:
        assert found.error < 0.03
    else:
        assert found.error > 0.03  # sums of 16 bits saturate


def test_a_session_in_float32_has_no_layers_of_8_bits(tmp_path: Path) -> None:
    file = a_model(tmp_path / "model.onnx")
    with answering() as seen:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        with seen.inspected():
            session.run(None, {"x": rows()})
    assert seen.served.int8 is None
