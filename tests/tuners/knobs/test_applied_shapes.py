"""Patches of programs of many shapes: each runs, and its losses agree as the gate bounds them."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from applied_builder import a_change
from hypothesis import given, settings
from hypothesis import strategies as st
from result_builder import an_adopted

from advisor.patching.applying import edited
from advisor.result.document import Adopted
from advisor.tuners.comparing import gate
from advisor.tuners.knob import Semantics
from advisor.tuners.knobs import KNOBS

SCRIPTS = Path(__file__).parents[2] / "scripts"

WORKERS = a_change("num_workers", 0, 1)
AMP = a_change("amp", "off", "bf16")
FUSED = a_change("optimizer_implementation", "default", "fused")
FOREACH = a_change("optimizer_implementation", "default", "foreach")
PRODUCTS = a_change("matmul_precision", "highest", "medium")
LAYOUT = a_change("channels_last", "off", "on")
COMPILED = a_change("execution", "eager", "compile")

IMAGES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    images, labels = torch.randn(64, 3, 8, 8), torch.randint(4, (64,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)
    features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(features, nn.Linear(8, 4))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        model.train()
        for batch, (image, label) in enumerate(loader):
            optimizer.zero_grad()
            output = model(image)
            loss = criterion(output, label)
            loss.backward()
            optimizer.step()
            print(f"{loss.item():.6f}")
        model.eval()
        with torch.no_grad():
            print(f"{criterion(model(images), labels).item():.6f}")


if __name__ == "__main__":
    main()
"""

AT_BACKWARD = IMAGES.replace(
    """\
            loss = criterion(output, label)
            loss.backward()
            optimizer.step()
            print(f"{loss.item():.6f}")
""",
    """\
            criterion(output, label).backward()
            optimizer.step()
            print(f"{criterion(output, label).item():.6f}")
""",
)

FUNCTIONS = """\
import argparse

import torch
import torch.nn.functional as F
import torch.optim as optim
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        return F.log_softmax(self.last(torch.relu(self.first(x))), dim=1)


def train(model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")


def test(model, device, test_loader):
    model.eval()
    with torch.no_grad():
        for data, target in test_loader:
            print(f"{F.nll_loss(model(data.to(device)), target.to(device)).item():.6f}")


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(1)
device = torch.device("cpu")
data = TensorDataset(torch.randn(80, 6), torch.randint(3, (80,)))
train_loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
test_loader = DataLoader(data, batch_size=40)
model = Net().to(device)
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(1, args.epochs + 1):
    train(model, device, train_loader, optimizer, epoch)
    test(model, device, test_loader)
"""

TRAINER = """\
import torch
from torch import nn

BATCH = 8


class Trainer:
    def __init__(self, model):
        self.model = model
        self.loss = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def fit(self, data):
        for inputs, target in data:
            prediction = self.model(inputs)
            loss = self.loss(prediction, target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(f"{loss.item():.6f} {prediction.mean().item():.6f}")


torch.manual_seed(2)
data = torch.utils.data.TensorDataset(torch.randn(96, 5), torch.randn(96, 1))
Trainer(nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))).fit(
    torch.utils.data.DataLoader(
        data,
        batch_size=BATCH,
        shuffle=True,
    )
)
"""

WORKLOAD = """\
import advisor
import torch

workload = advisor.Workload(
    model=lambda: torch.nn.Linear(1, 1),
    dataset=list,
    loss=print,
    optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    batch_size=8,
)
"""


GOOD = {
    Semantics.EXACT: ("identical",),
    Semantics.ROUNDING: ("identical", "within_noise"),
    Semantics.PRECISION: ("identical", "within_noise"),
    Semantics.TRAINING: ("not_checked",),
}


@dataclass(frozen=True)
class Shape:
    """A program, what is asked for, and which of it can be edited."""

    program: str
    changes: tuple[Adopted, ...]
    edited: tuple[str, ...]
    runs: bool = True


def script(name: str) -> str:
    return (SCRIPTS / f"{name}.py").read_text()


SHAPES: dict[str, Shape] = {
    "images in a main function": Shape(
        IMAGES,
        (WORKERS, FOREACH, LAYOUT, PRODUCTS),
        ("num_workers", "optimizer_implementation", "channels_last", "matmul_precision"),
    ),
    "images under autocast": Shape(IMAGES, (LAYOUT, AMP), ("channels_last", "amp")),
    "a loss computed at backward": Shape(AT_BACKWARD, (AMP,), ("amp",)),
    "functions and options": Shape(
        FUNCTIONS, (WORKERS, FUSED, AMP), ("num_workers", "optimizer_implementation", "amp")
    ),
    "functions and options, exactly": Shape(
        FUNCTIONS,
        (WORKERS, a_change("persistent_workers", "off", "on")),
        ("num_workers", "persistent_workers"),
    ),
    "a trainer class": Shape(
        TRAINER, (WORKERS, FUSED, PRODUCTS), ("num_workers", "optimizer_implementation", "matmul_precision")
    ),
    "a trainer class under autocast": Shape(TRAINER, (AMP,), ("amp",)),
    "a larger batch and its rate": Shape(
        TRAINER.replace("8\n", "4\n", 1).replace("BATCH,", "4,").replace("BATCH = 4\n", ""),
        (a_change("batch_size", 4, 16), a_change("lr_scaling", "none", "sqrt")),
        ("batch_size", "lr_scaling"),
    ),
    "accumulation": Shape(
        script("accumulation"), (WORKERS, FUSED, AMP), ("num_workers", "optimizer_implementation", "amp")
    ),
    "a batch sampler": Shape(
        script("batch_sampler"), (WORKERS, FUSED, a_change("batch_size", 8, 16)), ("num_workers",)
    ),
    "two optimizers": Shape(
        script("gan"),
        (WORKERS, FUSED, AMP, COMPILED, PRODUCTS),
        ("num_workers", "optimizer_implementation", "matmul_precision"),
    ),
    "a stream": Shape(
        script("iterable_dataset"),
        (WORKERS, FOREACH, AMP),
        ("num_workers", "optimizer_implementation", "amp"),
    ),
    "an optimizer with a closure": Shape(script("lbfgs"), (WORKERS, FUSED, AMP), ()),
    "a framework's closure": Shape(
        script("lightning_like"), (WORKERS, FUSED, AMP), ("num_workers", "optimizer_implementation")
    ),
    "updates by hand": Shape(script("manual_sgd"), (WORKERS, FUSED, AMP, COMPILED), ()),
    "a memory map and a model with a loss": Shape(
        script("memory_map"),
        (WORKERS, FUSED, AMP, PRODUCTS),
        ("optimizer_implementation", "matmul_precision"),
    ),
    "its own scaler": Shape(script("own_scaler"), (FUSED, AMP), ("optimizer_implementation",)),
    "a forward called directly": Shape(
        script("own_arguments"), (FUSED, AMP, COMPILED, LAYOUT), ("optimizer_implementation",)
    ),
    "evaluation before the first step": Shape(
        script("step_zero"), (AMP, FUSED), ("amp", "optimizer_implementation")
    ),
    "arithmetic for a loss": Shape(script("short"), (AMP, FUSED), ("amp", "optimizer_implementation")),
    "a framework's loader": Shape(
        script("trainer_like"), (WORKERS, FUSED, AMP), ("optimizer_implementation", "amp")
    ),
    "files are written": Shape(script("writes_files"), (FUSED, AMP), ("optimizer_implementation", "amp")),
    "spawned workers": Shape(
        script("spawned_workers"),
        (a_change("num_workers", 1, 2), FUSED),
        ("num_workers", "optimizer_implementation"),
        runs=False,
    ),
    "compiled": Shape(
        TRAINER, (COMPILED, a_change("dynamic", "auto", "on")), ("execution", "dynamic"), runs=False
    ),
    "a workload": Shape(
        WORKLOAD,
        (WORKERS, FUSED, AMP, a_change("batch_size", 8, 32)),
        ("num_workers", "optimizer_implementation", "batch_size"),
        runs=False,
    ),
}
RUN = {name: shape for name, shape in SHAPES.items() if shape.runs and shape.edited}


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch

    precision, state = torch.get_float32_matmul_precision(), torch.get_rng_state()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_rng_state(state)


def patch_of(shape: Shape) -> tuple[str, dict[str, str]]:
    kind = "workload" if "advisor.Workload" in shape.program else "script"
    after, reasons = edited(shape.program.encode(), shape.changes, kind)
    return after.decode(), reasons


def printed(program: str) -> list[float]:
    """Runs a program here; the numbers that it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "train.py", "exec"), {"__name__": "__main__"})
    return [float(word) for word in re.findall(r"-?\d+\.\d{6}", out.getvalue())]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_can_be_edited_is_edited_and_the_rest_has_a_reason(shape: Shape) -> None:
    after, reasons = patch_of(shape)
    asked = {change.knob for change in shape.changes}
    assert asked - reasons.keys() == set(shape.edited), reasons
    assert all(reasons.values())
    assert (after == shape.program) == (not shape.edited)


@pytest.mark.parametrize("shape", RUN.values(), ids=RUN)
def test_a_patched_program_runs_and_its_losses_agree(shape: Shape) -> None:
    after, _ = patch_of(shape)
    own, patched = tuple(printed(shape.program)), printed(after)
    semantics = gate.widest([KNOBS[name].semantics for name in shape.edited])
    judged = gate.judge(gate.Reference(own, own, ()), patched, semantics, own_draws=False)
    assert judged.verdict in GOOD[semantics], judged.reason


def test_a_second_patch_finds_nothing_left_to_edit() -> None:
    after, _ = patch_of(SHAPES["images under autocast"])
    again, reasons = edited(after.encode(), (LAYOUT, AMP), "script")
    assert again.decode() == after
    assert reasons == {
        "channels_last": "the program sets a memory format itself", "amp": "the program uses autocast itself",
    }  # fmt: skip


EVERYTHING = (WORKERS, AMP, FUSED, PRODUCTS, LAYOUT, COMPILED, a_change("num_threads", 1, 2))


@given(
    st.sampled_from([IMAGES, FUNCTIONS, TRAINER]),
    st.sets(st.integers(0, 60), max_size=8),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=3),
)
@settings(max_examples=20, deadline=None)
def test_whatever_a_program_lacks_an_edit_leaves_valid_python_or_nothing(
    program: str, gone: set[int], swapped: list[tuple[int, int]]
) -> None:
    lines = program.splitlines()
    for one, other in swapped:
        if max(one, other) < len(lines):
            lines[one], lines[other] = lines[other], lines[one]
    before = "\n".join(line for at, line in enumerate(lines) if at not in gone)
    after, reasons = edited(before.encode(), EVERYTHING, "script")
    if len(reasons) == len(EVERYTHING):
        assert after.decode() == before
    else:
        compile(after, "train.py", "exec")


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_left_alone_or_understood(content: bytes) -> None:
    assert edited(content, (WORKERS, AMP, FUSED), "script")[0] == content


def test_an_unknown_change_is_left_to_the_user() -> None:
    change = an_adopted(knob="ranks", before=1, to=2, semantics="rounding", snippet="torchrun")
    assert edited(TRAINER.encode(), [change], "script")[1] == {"ranks": "advisor has no safe edit for it"}
