"""A trained model as TorchScript: scripted, traced, or traced with its weights as constants.

Frozen weights let torch fold batch norms into convolutions and fuse what follows them.
"""

import warnings
from collections.abc import Callable
from typing import Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import Form, Source, first_line
from advisor.tuners.mechanisms.torchscript import own_forward

LOADING = """import torch
model = torch.jit.load("{name}")
output = model(*inputs)"""


def torchscript_form(source: Source, how: str, function: Callable[..., Any]) -> Form:
    """The model as TorchScript, and its file.

    Args:
        source: The model.
        how: As the values of the knob ``execution`` are called.
        function: The bound forward of its class, where that may be watched.

    Raises:
        Refused: It is in training mode, has hooks, decides by values or takes named arguments where it is
            traced, or torch cannot take it.
    """
    import torch

    root = source.root
    if root.training:
        raise Refused("the model is in training mode, whose weights change")
    if any(module._forward_hooks or module._forward_pre_hooks for module in root.modules()):
        raise Refused("the model has forward hooks, which TorchScript does not run as Python")
    path = source.folder / f"model-{how.removeprefix('jit_')}.pt"
    with torch.inference_mode(False), torch.no_grad(), own_forward(function, root):
        module = _scripted(source) if how == "jit_script" else _traced(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made = torch.jit.freeze(module) if how == "jit_freeze" else module
            torch.jit.save(made, str(path))
    return Form(made, path, LOADING.format(name=path.name), "torchscript")


def _scripted(source: Source) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return torch.jit.script(source.root)
        except Exception as error:  # scripting raises whatever torch raises for the model's Python
            raise Refused(f"torch.jit.script: {first_line(error)}") from None


def _traced(source: Source) -> Any:
    import torch

    inputs, named = source.example
    if named:
        raise Refused("the model is called with named arguments, which a trace does not take")
    copied = tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in inputs)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            traced = torch.jit.trace(source.root, copied, check_trace=False)
        except Exception as error:  # tracing raises whatever the model or torch raises
            raise Refused(f"it cannot be traced: {first_line(error)}") from None
    decided = next((each for each in warned if each.category.__name__ == "TracerWarning"), None)
    if decided is not None:
        raise Refused(f"a trace would not decide by values: {str(decided.message).splitlines()[0]}")
    return traced
