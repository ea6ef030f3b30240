"""Layers of 8 bits of a served model, each held beside the same layer in float32."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.served import Int8Facts
from advisor.profiles.hooks.serving.timing import fastest_s

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

QUANTIZED = "torch.ao.nn.quantized"
MOST = 12  # layers that are tried, in the order of their calls
CPUINFO = Path("/proc/cpuinfo")
UNITS = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""Flags of processors that add products of 8 bits without sums of 16 bits."""


def int8_layers(root: "Module", call: Callable[[], object]) -> Int8Facts | None:
    """How right and how fast the layers of 8 bits in a model are; ``None`` where it has none.

    Args:
        root: The model; layers of ``torch.ao.nn.quantized`` are known.
        call: Calls it with an input of a request.
    """
    if QUANTIZED not in sys.modules:
        return None
    layers = {name: each for name, each in root.named_modules() if _is_known(each)}
    inputs: dict[str, Any] = {}
    handles = [each.register_forward_hook(_keep(inputs, name)) for name, each in layers.items()]
    try:
        call()
    finally:
        for handle in handles:
            handle.remove()
    tried = [(name, layers[name], given) for name, given in inputs.items()][:MOST]
    if not tried:
        return None
    error, worst, int8_s, float32_s = 0.0, "", 0.0, 0.0
    for name, layer, given in tried:
        reference, plain = _in_float32(layer, given)
        found = _error(layer(given), reference)
        if found >= error:
            error, worst = found, name
        seconds = _seconds(layer, given, plain)
        int8_s, float32_s = int8_s + seconds[0], float32_s + seconds[1]
    return Int8Facts(len(layers), error, worst, 1e3 * int8_s, 1e3 * float32_s, has_units())


def has_units() -> bool | None:
    """Whether the processor has units for products of 8 bits; ``None`` where it does not say."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return None
    flags = next((line.split() for line in lines if line.startswith(("flags", "Features"))), None)
    return None if flags is None else any(unit in flags for unit in UNITS)


def _is_known(module: "Module") -> bool:
    return type(module).__module__.startswith("torch.ao.nn") and type(module).__name__ in (
        "Linear", "LinearReLU", "Conv1d", "Conv2d", "Conv3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    ) and hasattr(module, "_packed_params")  # fmt: skip


def _keep(inputs: dict[str, Any], name: str) -> Callable[..., None]:
    def keep(module: Any, args: tuple[Any, ...], output: Any) -> None:
        if len(args) == 1:
            inputs.setdefault(name, args[0])

    return keep


def _in_float32(layer: Any, given: "Tensor") -> tuple["Tensor", Callable[[], object]]:
    """What the layer's weights and activations give in float32, and what takes its time there."""
    import torch

    weight, bias = layer.weight().dequantize(), layer.bias()
    if given.is_quantized:
        rounded = plain = given.dequantize()
    else:  # the layer rounds its input itself, to 7 bits
        scale, zero = torch._choose_qparams_per_tensor(given, True)
        rounded, plain = torch.fake_quantize_per_tensor_affine(given, scale, zero, 0, 127), given
    product = _product(layer, weight, bias)
    reference = product(rounded)
    if given.is_quantized:
        reference = torch.quantize_per_tensor(
            reference, layer.scale, layer.zero_point, torch.quint8
        ).dequantize()
    return reference, lambda: product(plain)


def _product(layer: Any, weight: "Tensor", bias: "Tensor | None") -> Callable[["Tensor"], "Tensor"]:
    from torch.nn import functional

    name = type(layer).__name__
    if name.startswith("Linear"):
        return _then(name, lambda given: functional.linear(given, weight, bias))
    convolve = getattr(functional, f"conv{name[-2:]}".lower())
    return _then(
        name,
        lambda given: convolve(
            given, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups
        ),
    )


def _then(name: str, product: Callable[["Tensor"], "Tensor"]) -> Callable[["Tensor"], "Tensor"]:
    return (lambda given: product(given).relu()) if "ReLU" in name else product


def _seconds(layer: Any, given: "Tensor", plain: Callable[[], object]) -> list[float]:
    return fastest_s(lambda: layer(given), plain)


def _error(output: "Tensor", reference: "Tensor") -> float:
    """Relative root mean squared difference."""
    found = output.dequantize() if output.is_quantized else output
    size = float(reference.norm())
    return float((found - reference).norm()) / size if size else 0.0
