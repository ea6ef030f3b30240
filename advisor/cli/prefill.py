"""The text of a workload file, with what can be read from a model's source filled in."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "# <- fill in"
CLASSES = 10
LENGTH = 16
GUESSES = {"int": "16", "float": "0.1", "bool": "False", "str": '""'}

_FRAME = '''\
"""What `advisor tune` trains: {title}.

Lines marked with an arrow are guesses; correct them where they are wrong.
"""

{imports}

SAMPLES = 2048  {mark}: samples per epoch


def model() -> torch.nn.Module:
    """A new model."""
    return {construct}


def dataset() -> Dataset:
    """Generated data of the right shape; put your own here."""
    generator = torch.Generator().manual_seed(0)
{data}
    return TensorDataset(inputs, targets)


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """One number that a step makes smaller."""
    return {loss}  {mark}: the loss


def optimizer(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """A new optimizer."""
    return torch.optim.AdamW(parameters, lr=1e-3)  {mark}: the optimizer


workload = advisor.Workload(
    model=model,
    dataset=dataset,
    loss=loss,
    optimizer=optimizer,
    batch_size=32,  {mark}: samples per step
)
'''

_HEADS = ["import torch", "from torch.utils.data import Dataset, TensorDataset", "", "import advisor"]


@dataclass(frozen=True)
class Shapes:
    """What goes in and comes out: code that makes inputs and targets, and the loss between them."""

    inputs: str
    targets: str
    loss: str


def skeleton() -> str:
    """A workload file around a small model of its own; runs as it is."""
    construct = f"torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, {CLASSES}))  {MARK}: the model"
    return _fill("a model of your own", _imports([]), construct, _vectors("32", str(CLASSES)))


def prefilled(file: Path, models: Sequence[ast.ClassDef], out: Path) -> str:
    """A workload file for the model that a file defines.

    Args:
        file: Where the model is.
        models: Its model classes; the one that no other uses is taken, the last one of several.
        out: Where the workload file will be.
    """
    used = {
        node.id
        for one in models
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and node.id != one.name
    }
    model = [one for one in models if one.name not in used or len(models) == 1][-1:] or list(models[-1:])
    chosen = model[0]
    arguments, notes = _arguments(chosen)
    construct = f"{chosen.name}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    if notes:
        construct += f"  {MARK}: {', '.join(notes)}"
    return _fill(f"{chosen.name}, on generated data", _imports(_import_of(file, chosen.name, out)), construct,
                 _shapes(chosen))  # fmt: skip


def _fill(title: str, imports: str, construct: str, shapes: Shapes) -> str:
    data = (
        f"    inputs = {shapes.inputs}  {MARK}: what goes in\n"
        f"    targets = {shapes.targets}  {MARK}: what is learnt"
    )
    return _FRAME.format(
        title=title, imports=imports, construct=construct, data=data, loss=shapes.loss, mark=MARK
    )


def _imports(of_model: Sequence[str]) -> str:
    standard = [
        "from collections.abc import Iterable",
        *(line for line in of_model if line.startswith("import ")),
    ]
    own = [line for line in of_model if not line.startswith("import ")]
    return "\n".join([*sorted(standard), "", *_HEADS, *own])


def _import_of(file: Path, name: str, out: Path) -> list[str]:
    """Lines that import the model, from wherever it is."""
    root, parts = file.resolve().parent, [file.stem]
    while (root / "__init__.py").is_file() and root != root.parent:
        parts.insert(0, root.name)
        root = root.parent
    folder = out.resolve().parent
    lines: list[str] = []
    if root != folder:
        below = root.relative_to(folder) if root.is_relative_to(folder) else None
        place = f"str(Path(__file__).parent / {str(below)!r})" if below else repr(str(root))
        lines += [
            "import sys",
            *(["from pathlib import Path"] if below else []),
            f"sys.path.insert(0, {place})",
        ]
    if all(part.isidentifier() for part in parts):
        return [*lines, f"from {'.'.join(parts)} import {name}"]
    return ["import importlib", *lines, f"{name} = importlib.import_module({'.'.join(parts)!r}).{name}"]


def _constructor(model: ast.ClassDef) -> ast.FunctionDef | None:
    found = [node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return found[-1] if found else None


def _arguments(model: ast.ClassDef) -> tuple[dict[str, str], list[str]]:
    """Arguments of the constructor with their defaults as written, and the names that were guessed."""
    constructor = _constructor(model)
    if constructor is None:
        return {}, []
    accepted = constructor.args
    positional = [*accepted.posonlyargs, *accepted.args][1:]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(accepted.defaults)) + list(
        accepted.defaults
    )
    pairs = [
        *zip(positional, defaults, strict=False),
        *zip(accepted.kwonlyargs, accepted.kw_defaults, strict=True),
    ]
    values: dict[str, str] = {}
    guessed = []
    for argument, default in pairs:
        if default is None:
            values[argument.arg] = _guess(argument)
            guessed.append(argument.arg)
        elif isinstance(default, ast.Constant):
            values[argument.arg] = ast.unparse(default)
    return values, guessed


def _guess(argument: ast.arg) -> str:
    if "class" in argument.arg or argument.arg in ("out_features", "output_dim"):
        return str(CLASSES)
    kind = ast.unparse(argument.annotation) if argument.annotation else ""
    if kind in GUESSES:
        return GUESSES[kind]
    return "None" if kind else GUESSES["int"]


def _shapes(model: ast.ClassDef) -> Shapes:
    """Guessed from the first and the last layer that the constructor makes."""
    values, _ = _arguments(model)
    calls = [
        node
        for node in ast.walk(_constructor(model) or model)
        if isinstance(node, ast.Call)
        and _layer(node) in ("Linear", "Conv1d", "Conv2d", "Conv3d", "Embedding")
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    if not calls:
        return _vectors("32", str(CLASSES))
    first = _size(calls[0], 0, ("in_features", "in_channels", "num_embeddings"), values) or "32"
    linear = [call for call in calls if _layer(call) == "Linear"]
    last = (_size(linear[-1], 1, ("out_features",), values) if linear else None) or str(CLASSES)
    kind = _layer(calls[0])
    if kind == "Embedding":
        tokens = f"torch.randint({first}, (SAMPLES, {LENGTH}), generator=generator)"
        return Shapes(
            tokens, tokens, "torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())"
        )
    if kind.startswith("Conv"):
        sides = ", ".join(["32"] * int(kind[4]))
        return _vectors(f"{first}, {sides}", last)
    return _vectors(first, last)


def _vectors(shape: str, classes: str) -> Shapes:
    return Shapes(
        f"torch.randn(SAMPLES, {shape}, generator=generator)",
        f"torch.randint({classes}, (SAMPLES,), generator=generator)",
        "torch.nn.functional.cross_entropy(output, target)",
    )


def _layer(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _size(call: ast.Call, position: int, names: Sequence[str], values: Mapping[str, str]) -> str | None:
    """A size that a layer is given, where it is a number or an argument of the constructor."""
    given: list[ast.expr] = [word.value for word in call.keywords if word.arg in names]
    if not given and len(call.args) > position:
        given = [call.args[position]]
    if not given:
        return None
    written = given[0]
    if isinstance(written, ast.Constant) and type(written.value) is int:
        return str(written.value)
    if isinstance(written, ast.Name) and values.get(written.id, "").isdigit():
        return values[written.id]
    return None
