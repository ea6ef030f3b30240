"""What others would choose for the same models, its speed and its loss as measured by us.

    python -m benchmarks.inference_peers --only mobile_net trained

ONNX Runtime by its own defaults (a session, ``quantize_dynamic``, ``quantize_static``), and Intel Neural
Compressor's default for a torch model on CPUs (static int8 with calibration), where ``neural_compressor`` can
be imported. optimum-benchmark chooses nothing: it measures the one configuration that it is told, so what it
would report is the first row. Each candidate and the model as it is have processes of their own, which take
turns (unchanged, changed, changed, unchanged) in slots of fifty requests; the one that waits is stopped.
Answers are held beside each other on samples that served no calibration. Writes
``results/inference_peers.json``. Wants a machine that does nothing else: some minutes a model.
"""

import argparse
import json
import math
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from advisor.tuners.accuracy.agreement import agreement
from advisor.tuners.accuracy.outputs import flattened
from advisor.tuners.comparing.measure import quad_log_ratio
from benchmarks.conditions import conditions
from benchmarks.served_models import MODELS, write_workload

RESULTS = Path(__file__).parent / "results" / "inference_peers.json"
CALIBRATION, JUDGED, SLOT, QUADS = 64, 1000, 50, 8
Answering = Callable[[Tensor], Any]


def eager(model: nn.Module, samples: list[Tensor], folder: Path) -> Answering:
    """The model as it is."""
    return torch.inference_mode()(model)


def exported(model: nn.Module, samples: list[Tensor], folder: Path) -> Path:
    """An ONNX file."""
    path = folder / "model.onnx"
    torch.onnx.export(model, (samples[0],), str(path), dynamo=True, verbose=False, external_data=False)
    return path


def session(path: Path) -> Answering:
    """Answers of a session as ONNX Runtime makes one without options."""
    import onnxruntime

    made = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = made.get_inputs()[0].name
    return lambda x: torch.from_numpy(made.run(None, {name: x.numpy()})[0])


def onnxruntime_session(model: nn.Module, samples: list[Tensor], folder: Path) -> Answering:
    """In float32."""
    return session(exported(model, samples, folder))


def onnxruntime_dynamic(model: nn.Module, samples: list[Tensor], folder: Path) -> Answering:
    """``quantize_dynamic`` without options."""
    from onnxruntime.quantization import quantize_dynamic

    path = folder / "dynamic.onnx"
    quantize_dynamic(exported(model, samples, folder), path)
    return session(path)


def onnxruntime_static(model: nn.Module, samples: list[Tensor], folder: Path) -> Answering:
    """``quantize_static`` without options, after the preparation that it asks for."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # it has no types
        def __init__(self, name: str) -> None:
            self.left: Iterator[Tensor] = iter(samples)
            self.name = name

        def get_next(self) -> dict[str, Any] | None:
            x = next(self.left, None)
            return None if x is None else {self.name: x.numpy()}

    import onnxruntime

    path, prepared, made = exported(model, samples, folder), folder / "prepared.onnx", folder / "static.onnx"
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantize_static(str(prepared), str(made), Reader(onnxruntime.InferenceSession(path).get_inputs()[0].name))
    return session(made)


def neural_compressor(model: nn.Module, samples: list[Tensor], folder: Path) -> Answering:
    """Static int8 as its ``get_default_static_config`` says."""
    from neural_compressor.torch.export import export
    from neural_compressor.torch.quantization import convert, get_default_static_config, prepare

    prepared = prepare(export(model, example_inputs=(samples[0],)), get_default_static_config())
    for x in samples:
        prepared(x)
    return torch.inference_mode()(torch.compile(convert(prepared)))


CHOICES: dict[str, Callable[[nn.Module, list[Tensor], Path], Answering]] = {
    "onnxruntime session": onnxruntime_session,
    "onnxruntime quantize_dynamic": onnxruntime_dynamic,
    "onnxruntime quantize_static": onnxruntime_static,
    "neural_compressor static": neural_compressor,
}


def answering(name: str, choice: str, made: str, line: Connection) -> None:
    """A process that answers: a slot of requests, or the samples to be judged."""
    warnings.simplefilter("ignore")
    folder = Path(made)
    try:
        make, dataset = MODELS[name]
        model = make()
        model.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
        own = folder / choice.replace(" ", "_")
        own.mkdir(exist_ok=True)
        data: Any = dataset()
        calls = [data[place][0][None] for place in range(CALIBRATION + JUDGED)]
        answer = CHOICES.get(choice, eager)(model.eval(), calls[:CALIBRATION], own)
        answer(calls[0])
    except Exception as error:  # of whatever a peer raises; it is told
        line.send(f"{type(error).__name__}: {error}".splitlines()[0])
        return
    line.send(None)
    place = 0
    while (asked := line.recv()) is not None:
        if asked == "answers":
            line.send([answer(x).detach().numpy() for x in calls[CALIBRATION:]])
            continue
        times = []
        for _ in range(SLOT + 1):
            place = (place + 1) % len(calls)
            began = time.perf_counter()
            answer(calls[place])
            times.append(time.perf_counter() - began)
        line.send(statistics.median(times[1:]))


def stopped(process: Any, how: signal.Signals) -> None:
    """Stop or go on: threads of a session that spin for the next request take CPUs of who has its turn."""
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, how)


def compared(name: str, choice: str, folder: Path) -> dict[str, Any]:
    """Speed of a choice over the model as it is, and how its answers differ."""
    context = multiprocessing.get_context("spawn")
    lines, processes = [], []
    try:
        for each in ("unchanged", choice):
            here, there = context.Pipe()
            processes.append(context.Process(target=answering, args=(name, each, str(folder), there)))
            processes[-1].start()
            there.close()
            lines.append(here)
        for here in lines:
            if (failed := here.recv()) is not None:
                return {"choice": choice, "failed": failed}

        def asked(arm: int, what: str) -> Any:
            stopped(processes[1 - arm], signal.SIGSTOP)
            stopped(processes[arm], signal.SIGCONT)
            lines[arm].send(what)
            return lines[arm].recv()

        kept = [[flattened(torch.from_numpy(x)) for x in asked(arm, "answers")] for arm in (0, 1)]
        ratios = []
        for _ in range(QUADS):
            a1, b1, b2, a2 = (asked(arm, "slot") for arm in (0, 1, 1, 0))
            ratios.append(quad_log_ratio(a1, b1, b2, a2))
        for here in lines:
            here.send(None)
    finally:
        for process in processes:
            stopped(process, signal.SIGCONT)
        for process in processes:
            process.join(10.0)
            process.kill()
    found = agreement(*kept)
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "choice": choice,
        "speed": math.exp(statistics.median(ratios)),
        "quartiles": [math.exp(low), math.exp(high)],
        "relative_rms": found.relative_rms,
        "flips": found.flips,
        "samples": found.samples,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in options.only:
        with tempfile.TemporaryDirectory() as made:
            write_workload(name, Path(made))
            rows[name] = []
            for choice in CHOICES:
                rows[name].append(compared(name, choice, Path(made)))
                print(name, json.dumps(rows[name][-1]), flush=True)
        options.out.write_text(json.dumps({"conditions": conditions(), "models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
