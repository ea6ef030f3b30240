"""Linear and recurrent layers with weights of 8 bits by torch itself; activations are measured as it runs.

Its kernels for x86 keep to 7 bits where that is needed, so they do not saturate. torch marks the interface as
deprecated in favour of torchao, whose kernels do.
"""

import warnings
from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line

if TYPE_CHECKING:
    from torch.nn import Module

LOADING = """import torch
model = torch.ao.quantization.quantize_dynamic(model, {{torch.nn.Linear, torch.nn.LSTM, torch.nn.GRU}})
model.load_state_dict(torch.load("{name}", weights_only=False))"""
LAYERWISE = """
for layer in model.modules():  # their fast paths read weights as tensors
    if isinstance(layer, torch.nn.TransformerEncoderLayer):
        layer.activation_relu_or_gelu = 0
    elif isinstance(layer, torch.nn.TransformerEncoder):
        layer.use_nested_tensor = False"""


def torch_int8_form(source: Source) -> Form:
    """The model with its linear, LSTM and GRU layers quantised.

    Raises:
        Refused: It has none of them, or this torch has no kernels for them.
    """
    import torch

    kinds = {torch.nn.Linear, torch.nn.LSTM, torch.nn.GRU}
    if not any(type(module) in kinds for module in source.root.modules()):
        raise Refused("the model has no linear, LSTM or GRU layer, which alone torch quantises dynamically")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantised = torch.ao.quantization.quantize_dynamic(source.copied(), kinds)
            layerwise = _call_layers(quantised)
            reference = _dequantised(source, quantised)
    except FAILURES as error:
        raise Refused(f"torch.ao.quantization: {first_line(error)}") from None
    path = source.folder / "model-int8.pt"
    torch.save(quantised.state_dict(), path)
    loading = LOADING.format(name=path.name) + (LAYERWISE if layerwise else "")
    return Form(quantised, path, loading, "state_dict", (), reference)


def _call_layers(model: "Module") -> bool:
    """Have encoder layers of torch call their linear layers; whether the model has such.

    In inference a fused kernel answers in their place, which takes weights in floating point. What that saves
    is lost, and padded places hold other numbers than the zeros that it leaves there.
    """
    import torch

    found = False
    for module in model.modules():
        if isinstance(module, torch.nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0  # which layers of another activation have
            found = True
        elif isinstance(module, torch.nn.TransformerEncoder):
            module.use_nested_tensor = False
    return found


def _dequantised(source: Source, quantised: "Module") -> "Module | None":
    """The model with the weights that the quantised one has; ``None`` where they cannot be read."""
    import torch

    plain = source.copied()
    _call_layers(plain)
    own: dict[str, Any] = dict(plain.named_modules())
    for name, module in quantised.named_modules():
        if not isinstance(module, torch.ao.nn.quantized.dynamic.Linear):
            if type(module).__module__.startswith("torch.ao.nn.quantized.dynamic"):
                return None
            continue
        own[name].weight = torch.nn.Parameter(module.weight().dequantize(), requires_grad=False)
    return plain
