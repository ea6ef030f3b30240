"""Linear layers with weights of 8 bits by torchao, compiled: else they are slower than what they replace.

Its compiled kernels saturate on CPUs without VNNI (a relative error of 0.25 was seen) unless weights keep to
7 bits.
"""

import warnings
from typing import Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line
from advisor.tuners.mechanisms.forms.packages import needed

KINDS = ("dynamic", "weight_only")
LOADING = """import torch, torchao
model.load_state_dict(torch.load("{name}", weights_only=False), assign=True)
model = torch.compile(model)"""


def torchao_int8_form(source: Source, kind: str, *, bits: int = 8, compiled: bool = True) -> Form:
    """The model with its linear layers quantised.

    Args:
        source: The model.
        kind: ``dynamic`` or ``weight_only``.
        bits: 8, or 7 for weights whose products cannot saturate 16 bits; ``weight_only`` has 8.
        compiled: Run it through ``torch.compile``, which happens at the first call.

    Raises:
        Refused: torchao is missing, or the model has no linear layer.
    """
    import torch

    if not any(type(module) is torch.nn.Linear for module in source.root.modules()):
        raise Refused("the model has no linear layer, which alone torchao quantises on a CPU")
    quantization: Any = needed("torchao.quantization")
    if kind == "dynamic":
        config = quantization.Int8DynamicActivationInt8WeightConfig(
            set_inductor_config=False, reduce_range=bits == 7
        )
    elif bits == 7:
        raise Refused("weights of 7 bits are for products of integers, which weight_only has not")
    else:
        config = quantization.Int8WeightOnlyConfig(set_inductor_config=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantised = source.copied()
            quantization.quantize_(quantised, config)
            plain = source.copied()
            own: dict[str, Any] = dict(plain.named_modules())
            for name, module in quantised.named_modules():
                weight: Any = getattr(module, "weight", None)
                if type(module) is torch.nn.Linear and hasattr(weight, "dequantize"):
                    whole = weight.dequantize().to(own[name].weight.dtype)
                    own[name].weight = torch.nn.Parameter(whole, requires_grad=False)
    except FAILURES as error:
        raise Refused(f"torchao: {first_line(error)}") from None
    path = source.folder / f"model-int8-{kind}.pt"
    torch.save(quantised.state_dict(), path)
    call = source.compiled(quantised) if compiled else quantised
    return Form(call, path, LOADING.format(name=path.name), "state_dict", ("torchao",), plain)
