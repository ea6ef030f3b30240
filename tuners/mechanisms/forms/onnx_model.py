"""A model as an ONNX file, run by ONNX Runtime.

Its threads are as many as torch's, and do not spin between requests, unless knobs say otherwise: by default
it starts one per core of the machine, whatever the process may use, and they burn seconds of CPU time after
each request (onnxruntime 13808).
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import exported, fitting, leaves, restoring, sizes_of
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, Threads, first_line
from advisor.tuners.mechanisms.forms.packages import missing, needed

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LOADING = """import onnxruntime; options = onnxruntime.SessionOptions(); \
options.intra_op_num_threads = {threads}; \
options.add_session_config_entry("session.intra_op.allow_spinning", "{spinning:d}")
session = onnxruntime.InferenceSession("{name}", options)
outputs = session.run(None, {{each.name: array for each, array in zip(session.get_inputs(), arrays)}})"""


def onnx_form(source: Source) -> Form:
    """The model exported, run in 32 bits.

    Raises:
        Refused: A package is missing, or the model cannot be exported.
    """
    program, path = onnx_file(source)
    return Form(running(program, path, source), path, loading(path, source.threads), "onnx", PACKAGES)


def onnx_file(source: Source) -> tuple[Any, Path]:
    """The exported program and its ONNX file.

    Raises:
        Refused: A package is missing, or the model cannot be exported.
    """
    import torch

    lacking = missing(*PACKAGES)
    if lacking:
        raise Refused(lacking)
    program = exported(source)
    path = source.folder / "model.onnx"
    try:
        with warnings.catch_warnings():  # the exporter warns of what torch itself deprecates
            warnings.simplefilter("ignore")
            written = torch.onnx.export(program, dynamo=True, verbose=False)
        if written is None:
            raise Refused("torch.onnx.export gave no program")
        written.save(str(path))
    except FAILURES as error:
        raise Refused(f"torch.onnx.export: {first_line(error)}") from None
    return program, path


def loading(path: Path, threads: Threads) -> str:
    """Lines that run the file as it was measured; ``arrays`` are the inputs in order."""
    return LOADING.format(name=path.name, threads=threads.number, spinning=threads.spinning)


def running(program: Any, path: Path, source: Source, *, optimized: bool = True) -> Callable[..., Any]:
    """What runs the file in place of the model; calls of another form are answered by the model itself.

    Args:
        program: The exported program that the file was made of.
        path: The file.
        source: The model.
        optimized: Fuse operators, as by default; a reference is run operator by operator.

    Raises:
        Refused: ONNX Runtime cannot run it.
    """
    import torch

    runtime: Any = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = source.threads.number
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(source.threads.spinning)))
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except _errors() as error:
        raise Refused(f"onnxruntime: {first_line(error)}") from None
    names = [each.name for each in session.get_inputs()]
    if len(names) != len(leaves(source.example)):
        raise Refused(f"the exported model takes {len(names)} of {len(leaves(source.example))} inputs")

    taken = fitting(source.example, sizes_of(program))
    failures, restore = _errors(), restoring(program)

    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = taken((args, kwargs))
        if tensors is None:
            return source.answer(*args, **kwargs)
        arrays = [tensor.detach().cpu().numpy() for tensor in tensors]
        try:
            outputs = session.run(None, dict(zip(names, arrays, strict=True)))
        except failures as error:
            raise RuntimeError(f"onnxruntime: {first_line(error)}") from None
        return restore([torch.from_numpy(array) for array in outputs])

    return run


def _errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises for a file that it cannot run; it has no common class for them."""
    state: Any = needed("onnxruntime.capi.onnxruntime_pybind11_state")
    own = (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NotImplemented,
        state.RuntimeException,
    )
    return (*own, *FAILURES)
