"""int8 kernels of a CPU without VNNI, by oneDNN's own limit of instructions (ONEDNN_MAX_CPU_ISA).

On a CPU that has no VNNI, torch 2.13 computes the products of torchao itself, and right: what pt2e
compiles is not. There the limit changes nothing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from served import a_wide_source

from advisor.tuners.accuracy.kernel_reference import kernel_check
from advisor.tuners.accuracy.outputs import Array, Output, flattened
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.artefact import cpu_flags
from advisor.tuners.mechanisms.forms.checked import checked_form, compared
from advisor.tuners.mechanisms.forms.form import Form, Source
from advisor.tuners.mechanisms.forms.onnx_int8 import onnx_int8_form
from advisor.tuners.mechanisms.forms.pt2e_int8 import pt2e_int8_form

HERE = Path(__file__).parent
PROGRAM = """
import json, sys, tempfile
from dataclasses import asdict
from pathlib import Path
import torch
from served import a_wide_source
from advisor.tuners.accuracy.kernel_reference import kernel_check
from advisor.tuners.accuracy.outputs import flattened
from advisor.tuners.mechanisms.forms.pt2e_int8 import pt2e_int8_form
from advisor.tuners.mechanisms.forms.torchao_int8 import torchao_int8_form

MAKE = {
    "eager": lambda source, bits: torchao_int8_form(source, "dynamic", bits=bits, compiled=False),
    "compiled": lambda source, bits: torchao_int8_form(source, "dynamic", bits=bits),
    "pt2e": lambda source, bits: pt2e_int8_form(source, bits=bits),
}
source = a_wide_source(Path(tempfile.mkdtemp()))
told = {}
with torch.no_grad():
    for bits in (8, 7):
        form = MAKE[sys.argv[1]](source, bits)
        calls = [source.example, *source.calibration]
        outputs = [[flattened(each(*args)) for args, _ in calls]
                   for each in (source.root, form.reference, form.call)]
        check = kernel_check(*outputs)
        told[bits] = check.saturated
        torch._dynamo.reset()
print(json.dumps(told))
"""


@pytest.mark.long
@pytest.mark.parametrize("path", ["eager", "compiled", "pt2e"])
def test_kernels_of_torch_that_saturate_are_caught_and_seven_bits_are_right(path: str) -> None:
    pytest.importorskip("torchao")
    paths = [str(HERE), *filter(None, sys.path)]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, path],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    has_vnni = any(flag.endswith("_vnni") for flag in cpu_flags())
    assert json.loads(done.stdout.splitlines()[-1]) == {"8": has_vnni or path == "pt2e", "7": False}


@pytest.mark.parametrize(("bits", "saturated"), [(8, True), (7, False)])
def test_weights_of_onnx_runtime_saturate_in_such_a_kernel(
    bits: int, saturated: bool, tmp_path: Path
) -> None:
    """Nothing limits ONNX Runtime's instructions, so its first product is computed as AVX2 does it."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    source = a_wide_source(tmp_path)
    form = onnx_int8_form(source, "dynamic", bits=bits)
    assert form.file is not None and form.reference is not None
    held = {
        each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(str(form.file)).graph.initializer
    }
    weights = next(array for array in held.values() if array.dtype == np.int8 and array.shape == (256, 64))
    inputs = source.example[0][0].numpy()
    scale = max(inputs.max(), 0.0) / 255
    left = np.round(inputs / scale).astype(np.int64)
    exact, kernel = _rows(left @ weights.astype(np.int64) * 1.0), _rows(_saturating(left, weights) * 1.0)
    assert kernel_check(exact, exact, kernel).saturated is saturated
    with torch.no_grad():
        args, _ = source.example
        right = kernel_check(*([flattened(call(*args))] for call in (source.root, form.reference, form.call)))
    assert right.kernel < 1e-3 or right.saturated  # this machine's own kernel is right, or is named


OWN: dict[str, Callable[[Source, int], Form]] = {
    "ONNX Runtime, dynamic": lambda source, bits: onnx_int8_form(source, "dynamic", bits=bits),
    "ONNX Runtime, static": lambda source, bits: onnx_int8_form(source, "static", bits=bits),
    "pt2e, static, compiled": lambda source, bits: pt2e_int8_form(source, bits=bits),
}


@pytest.mark.long
@pytest.mark.parametrize("path", OWN)
def test_what_saturates_on_this_machine_is_caught_and_seven_bits_are_taken(path: str, tmp_path: Path) -> None:
    for package in ("onnx", "onnxruntime", "torchao"):
        pytest.importorskip(package)
    source = a_wide_source(tmp_path)
    torch._dynamo.reset()
    with torch.no_grad():
        if not any(flag.endswith("_vnni") for flag in cpu_flags()):
            with pytest.raises(Refused, match="sums of 16 bits saturate"):
                checked_form(source, lambda bits: OWN[path](source, bits), "8")
        form, bits = checked_form(source, lambda bits: OWN[path](source, bits), "auto")
        check = compared(source, form)
    assert bits == (8 if any(flag.endswith("_vnni") for flag in cpu_flags()) else 7)
    assert check is not None and not check.saturated and check.quantisation < 0.1


def _saturating(left: Array, right: Array) -> Array:
    pairs = left.reshape(len(left), -1, 2, 1) * right.reshape(-1, 2, right.shape[1]).astype(np.int64)
    summed: Array = np.clip(pairs.sum(2), -(2**15), 2**15 - 1).sum(1)
    return summed


def _rows(values: Array) -> list[Output]:
    return [flattened(row) for row in values]
