"""Runs a script with a mistake in it, which the numerics check has to catch.

    python benchmarks/wrong_candidate.py FAULT SCRIPT [ARGUMENTS]

``scaled``: every loss is multiplied by 1.01. ``overflow``: the first linear or convolution layer computes in
float16 beyond its range. ``no_dropout``: dropout does nothing, as in evaluation mode. ``faster``: the
learning rate is 1 % too high, which no first loss or gradient shows. ``none``: nothing.

``switched:FILE``: at any moment the mistake whose name is in the file: one process can make each in turn.
"""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer, optimizer

SCALE = 1.01
BEYOND = 1e6  # times the input: float16 ends at 65504
TENSOR: Any = Tensor  # patched below, which types forbid
LAYERS: tuple[Any, ...] = (nn.Linear, nn.Conv1d, nn.Conv2d)
DROPOUT: Any = nn.Dropout


def scaled() -> None:
    """Losses that are 1 % too large."""
    backward = TENSOR.backward

    def wrong(loss: Tensor, *arguments: Any, **named: Any) -> None:
        backward(loss * SCALE, *arguments, **named)

    TENSOR.backward = wrong


def overflow() -> None:
    """One layer in too few bits."""
    first: list[nn.Module] = []
    for kind in LAYERS:
        forward = kind.forward

        def wrong(layer: Any, inputs: Tensor, *, forward: Callable[..., Tensor] = forward) -> Tensor:
            if not first:
                first.append(layer)
            if layer is not first[0]:
                return forward(layer, inputs)
            return forward(layer, (inputs * BEYOND).half().to(inputs.dtype)) / BEYOND

        kind.forward = wrong


def no_dropout() -> None:
    """No unit is dropped."""
    DROPOUT.forward = lambda layer, inputs: inputs
    nn.functional.dropout = lambda inputs, *arguments, **named: inputs
    attention = nn.functional.scaled_dot_product_attention

    def without(*arguments: Any, **named: Any) -> Tensor:
        return attention(*arguments, **{**named, "dropout_p": 0.0})

    nn.functional.scaled_dot_product_attention = without


def faster() -> None:
    """A learning rate that is 1 % too high."""
    make = Optimizer.__init__

    def wrong(optimizer: Any, parameters: Any, defaults: dict[str, Any]) -> None:
        make(optimizer, parameters, {**defaults, "lr": SCALE * defaults["lr"]})

    Optimizer.__init__ = wrong  # type: ignore[assignment,method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "none": lambda: None, "scaled": scaled, "overflow": overflow, "no_dropout": no_dropout,
    "faster": faster,
}  # fmt: skip


PATCHED: list[tuple[Any, str]] = [
    (Tensor, "backward"), *((kind, "forward") for kind in (*LAYERS, nn.Dropout)),
    (nn.functional, "dropout"), (nn.functional, "scaled_dot_product_attention"),
]  # fmt: skip
"""What the mistakes that act at every call replace."""


def switched(file: Path) -> None:
    """The mistake that is named in a file when something is called."""
    right = [getattr(owner, name) for owner, name in PATCHED]
    versions: dict[str, list[Any]] = {}
    for fault in ("scaled", "overflow", "no_dropout"):
        FAULTS[fault]()
        versions[fault] = [getattr(owner, name) for owner, name in PATCHED]
        for (owner, name), function in zip(PATCHED, right, strict=True):
            setattr(owner, name, function)

    def choosing(place: int) -> Callable[..., Any]:
        def chosen(*arguments: Any, **named: Any) -> Any:
            return versions.get(file.read_text(), right)[place](*arguments, **named)

        return chosen

    for place, (owner, name) in enumerate(PATCHED):
        setattr(owner, name, choosing(place))
    rates: list[float] = []

    def before(updating: Optimizer, *of: Any) -> None:
        rates[:] = [group["lr"] for group in updating.param_groups]
        if file.read_text() == "faster":
            for group in updating.param_groups:
                group["lr"] *= SCALE

    def after(updating: Optimizer, *of: Any) -> None:
        for group, rate in zip(updating.param_groups, rates, strict=True):
            group["lr"] = rate

    optimizer.register_optimizer_step_pre_hook(before)
    optimizer.register_optimizer_step_post_hook(after)


if __name__ == "__main__":
    fault, _, file = sys.argv[1].partition(":")
    if file:
        switched(Path(file))
    else:
        FAULTS[fault]()
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
