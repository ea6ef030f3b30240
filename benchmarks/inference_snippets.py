"""What the usual snippets for a faster or smaller model do today: `python -m benchmarks.inference_snippets`.

Tutorials show quantisation, pruning, export and TorchScript in a few lines each. Every case below is such a
few lines (written for this file), run on a small model with random weights; what came of it is told: an error
or a warning, the size of the saved model, the relative error of its outputs, its time beside the model it
was made of (in turns, median of ratios, quartiles). Exporting wants the extra ``torch-advisor[inference]``.

Writes ``benchmarks/results/inference_snippets.json`` and prints the table of ``docs/inference_snippets.md``.
"""

import argparse
import copy
import io
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import prune

from benchmarks.conditions import conditions
from benchmarks.snippet_outcomes import Outcome, convolutions, difference, mlp, saved_bytes, speed

RESULTS = Path(__file__).parent / "results" / "inference_snippets.json"


def dynamic_int8() -> Outcome:
    """``torch.ao.quantization.quantize_dynamic`` over linear layers."""
    model, batch = mlp().eval(), torch.randn(32, 512)
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    with torch.inference_mode():
        return Outcome(
            "dynamic int8 of linear layers", [], difference(quantised(batch), model(batch)),
            saved_bytes(quantised) / saved_bytes(model), speed(quantised, model, batch),
        )  # fmt: skip


def static_without_stubs() -> Outcome:
    """Static quantisation of a model that has no ``QuantStub``, as often printed."""
    model = convolutions().eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig("x86")  # type: ignore[assignment]
    prepared = torch.ao.quantization.prepare(model)
    batch = torch.randn(8, 3, 64, 64)
    prepared(batch)
    torch.ao.quantization.convert(prepared)(batch)
    return Outcome("static int8 without stubs", [])


def static_int8() -> Outcome:
    """The same between ``QuantStub`` and ``DeQuantStub``, with convolution, norm and activation fused."""
    model, batch = convolutions().eval(), torch.randn(8, 3, 64, 64)
    wrapped = torch.ao.quantization.QuantWrapper(copy.deepcopy(model)).eval()
    fused = torch.ao.quantization.fuse_modules(
        wrapped, [["module.0", "module.1", "module.2"], ["module.3", "module.4", "module.5"]]
    )
    fused.qconfig = torch.ao.quantization.get_default_qconfig("x86")
    prepared = torch.ao.quantization.prepare(fused)
    with torch.inference_mode():
        for _ in range(8):
            prepared(torch.randn(8, 3, 64, 64))
        quantised = torch.ao.quantization.convert(prepared)
        return Outcome(
            "static int8 with stubs, fused, calibrated", [], difference(quantised(batch), model(batch)),
            saved_bytes(quantised) / saved_bytes(model), speed(quantised, model, batch),
        )  # fmt: skip


def aware_int8() -> Outcome:
    """Quantisation-aware: prepared in training mode, a few steps, converted."""
    model = torch.ao.quantization.QuantWrapper(mlp()).train()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")  # type: ignore[assignment]
    prepared = torch.ao.quantization.prepare_qat(model)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    for _ in range(3):
        loss = prepared(torch.randn(32, 512)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    prepared.eval()
    batch = torch.randn(32, 512)
    with torch.inference_mode():
        quantised = torch.ao.quantization.convert(prepared)
        return Outcome(
            "quantisation-aware int8", [], difference(quantised(batch), prepared(batch)),
            note="error beside the prepared model",
        )  # fmt: skip


def pruned(case: str, change: Callable[[nn.Module], None]) -> Outcome:
    """A pruned copy of the linear model beside the model."""
    model, batch = mlp().eval(), torch.randn(32, 512)
    smaller = copy.deepcopy(model)
    change(smaller)
    zeros = sum(int((weight == 0).sum()) for weight in smaller.buffers())
    for layer in smaller:  # type: ignore[attr-defined]
        if hasattr(layer, "weight_orig"):
            prune.remove(layer, "weight")
    with torch.inference_mode():
        shapes = {n: v.shape for n, v in smaller.state_dict().items()} == {
            n: v.shape for n, v in model.state_dict().items()
        }
        return Outcome(
            case, [], difference(smaller(batch), model(batch)), saved_bytes(smaller) / saved_bytes(model),
            speed(smaller, model, batch),
            f"{zeros} weights masked; shapes {'unchanged' if shapes else 'smaller'}",
        )  # fmt: skip


def unstructured() -> Outcome:
    """Half of each layer's weights, the smallest ones."""

    def change(model: nn.Module) -> None:
        for layer in model.children():
            if isinstance(layer, nn.Linear):
                prune.l1_unstructured(layer, "weight", amount=0.5)  # type: ignore[no-untyped-call]

    return pruned("pruning, half of each layer", change)


def over_all() -> Outcome:
    """Half of all weights at once."""

    def change(model: nn.Module) -> None:
        layers = [(layer, "weight") for layer in model.children() if isinstance(layer, nn.Linear)]
        prune.global_unstructured(layers, pruning_method=prune.L1Unstructured, amount=0.5)  # type: ignore[no-untyped-call]

    return pruned("pruning, half of all weights", change)


def structured() -> Outcome:
    """Half of the rows of each layer."""

    def change(model: nn.Module) -> None:
        for layer in list(model.children())[:-1]:
            if isinstance(layer, nn.Linear):
                prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)  # type: ignore[no-untyped-call]

    return pruned("pruning, half of the rows", change)


def exported() -> Outcome:
    """ONNX asked for at opset 11, run by ONNX Runtime."""
    import onnx
    import onnxruntime

    model, batch = mlp().eval(), torch.randn(32, 512)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(model, (batch,), path, opset_version=11, dynamo=True, external_data=False)
        opset = onnx.load(path).opset_import[0].version
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name

        def run(inputs: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(session.run(None, {name: inputs.numpy()})[0])

        with torch.inference_mode():
            return Outcome(
                "ONNX with opset_version=11", [], difference(run(batch), model(batch)),
                Path(path).stat().st_size / saved_bytes(model), speed(run, model, batch),
                f"the file says opset {opset}",
            )  # fmt: skip


def compared_in_training_mode() -> Outcome:
    """Scripted beside eager as exercises time them: training mode, with gradients."""
    model, batch = mlp(), torch.randn(32, 512)
    scripted = torch.jit.script(model)
    return Outcome(
        "torch.jit.script, timed in training mode", [], difference(scripted(batch), model(batch)), None,
        speed(scripted, model, batch), "each call keeps a graph that nobody uses",
    )  # fmt: skip


def scripted() -> Outcome:
    """Scripted, frozen, in evaluation mode; saved and loaded again."""
    model, batch = convolutions().eval(), torch.randn(8, 3, 64, 64)
    frozen = torch.jit.freeze(torch.jit.script(model))
    file = io.BytesIO()
    torch.jit.save(frozen, file)
    size = file.tell() / saved_bytes(model)
    file.seek(0)
    loaded = torch.jit.load(file)
    with torch.inference_mode():
        return Outcome(
            "torch.jit.script, frozen, saved, loaded", [], difference(loaded(batch), model(batch)), size,
            speed(loaded, model, batch),
        )  # fmt: skip


def traced_branch() -> Outcome:
    """A traced function whose branch depends on its input: the other branch is lost."""

    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if bool(x.sum() > 0) else -x

    model = Gate().eval()
    traced = torch.jit.trace(model, (torch.ones(4),))
    negative = -torch.ones(4)
    return Outcome("torch.jit.trace over a branch", [], difference(traced(negative), model(negative)))


def compiled() -> Outcome:
    """``torch.compile`` in evaluation mode, without gradients."""
    model, batch = convolutions().eval(), torch.randn(8, 3, 64, 64)
    with torch.inference_mode():
        begin = time.perf_counter()
        fast = torch.compile(copy.deepcopy(model))
        outputs = fast(batch)
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        plain = model(batch)
        usual = time.perf_counter() - begin
        return Outcome(
            "torch.compile, evaluation mode", [], difference(outputs, plain), None, speed(fast, model, batch),
            f"the first call takes as long as {first / usual:.0f} calls of the model",
        )  # fmt: skip


def hybrid() -> Outcome:
    """A traced backbone under a head that stays Python and decides by values; saved and loaded again."""

    class Early(nn.Module):
        def __init__(self, backbone: nn.Module) -> None:
            super().__init__()
            self.backbone, self.head = backbone, nn.Linear(10, 4)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            found = self.backbone(batch)
            return torch.as_tensor(self.head(found if bool(found.mean() > 0) else -found))

    model, batch = Early(mlp()).eval(), torch.randn(32, 512)
    with torch.inference_mode():
        file = io.BytesIO()
        torch.jit.save(torch.jit.trace(model.backbone, (batch,)), file)
        file.seek(0)
        traced = copy.deepcopy(model)
        traced.backbone = torch.jit.load(file)
        apart = [difference(traced(each), model(each)) for each in (batch, -batch, 3 * batch)]
        return Outcome("hybrid: traced backbone, eager head", [], max(apart), note="both branches taken")


def distilled() -> Outcome:
    """A small model taught by a large one on samples without labels, beside the same on the few labels."""
    generator = torch.Generator().manual_seed(0)
    truth = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    samples = torch.randn(6000, 16, generator=generator)  # the last 2000 are held out
    with torch.no_grad():
        labels = truth(3 * samples).argmax(1)

    def trained(model: nn.Module, count: int, teacher: nn.Module | None = None) -> nn.Module:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
        for _ in range(400):
            places = torch.randint(count, (128,), generator=generator)
            output = model(samples[places])
            if teacher is None:
                loss = nn.functional.cross_entropy(output, labels[places])
            else:  # at temperature 2, whose square keeps the size of the gradients
                with torch.no_grad():
                    taught = (teacher(samples[places]) / 2).softmax(1)
                loss = 4 * nn.functional.kl_div((output / 2).log_softmax(1), taught, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model.eval()

    def layers(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 4))

    teacher = trained(layers(256), 4000)
    models = {"of the teacher": teacher, "on 300 labels": trained(layers(16), 300),
              "taught": trained(layers(16), 4000, teacher)}  # fmt: skip
    right = [f"{(model(samples[4000:]).argmax(1) == labels[4000:]).float().mean():.0%} {name}"
             for name, model in models.items()]  # fmt: skip
    size = saved_bytes(models["taught"]) / saved_bytes(teacher)
    return Outcome("distillation", [], None, size, note=f"accuracy {', '.join(right)}")


CASES = (
    dynamic_int8, static_without_stubs, static_int8, aware_int8, unstructured, over_all, structured, exported,
    compared_in_training_mode, scripted, traced_branch, compiled,
    hybrid, distilled,
)  # fmt: skip


def first_line(text: str) -> str:
    """The first sentence of a message, at most 140 characters."""
    line = " ".join(text.split()).partition(". ")[0]
    return line if len(line) <= 140 else line[:137] + "..."


def run(case: Callable[[], Outcome]) -> Outcome:
    """What a snippet did, an error being an outcome, with the warnings it gave."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = case()
        except Exception as error:  # of whatever a snippet raises: that it does is its outcome
            name = first_line(case.__doc__ or "").rstrip(".")
            outcome = Outcome(name, [f"{type(error).__name__}: {first_line(str(error))}"])
    said = dict.fromkeys(f"{w.category.__name__}: {first_line(str(w.message))}" for w in caught)
    fields = asdict(outcome)
    fields["said"] = [*outcome.said, *said]
    return Outcome(**fields)


def row(outcome: Outcome) -> str:
    """A row of the table."""
    cells = [
        outcome.case,
        "-" if outcome.error is None else f"{outcome.error:.2g}",
        "-" if outcome.size is None else f"{outcome.size:.2f}",
        "-" if outcome.speed is None else "{:.2f} ({:.2f} to {:.2f})".format(*outcome.speed),
        outcome.note or "; ".join(outcome.said[:1]),
    ]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="part of a case's name; nothing is written then")
    only: str | None = parser.parse_args().only
    torch.set_num_threads(2)
    outcomes = [run(case) for case in CASES if not only or only in case.__name__]
    print("| snippet | error of outputs | size | speed | what it says |\n|---|---|---|---|---|")
    print("\n".join(map(row, outcomes)))
    if not only:
        document: dict[str, Any] = {"conditions": conditions(), "outcomes": [asdict(o) for o in outcomes]}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
