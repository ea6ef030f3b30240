"""Arithmetic and memory traffic of one call of an operator, from the shapes of its inputs.

A matrix product of m x k with k x n takes 2 m k n floating-point operations, a multiplication and an
addition each; everything else here is a sum of such products. Masks and causality are not subtracted.
"""

import re
from dataclasses import dataclass

from advisor.profiles.traces.signatures import SIZES, Signature, elements

Shapes = tuple[tuple[int, ...], ...]

PRODUCTS = {
    "aten::mm": 0, "aten::bmm": 0, "aten::matmul": 0, "aten::addmm": 1, "aten::baddbmm": 1,
    "aten::addbmm": 1, "aten::addmv": 1, "aten::mv": 0, "aten::_scaled_mm": 0,
    "aten::_addmm_activation": 1,
}  # fmt: skip
"""Matrix products, and the position of the first factor."""

LINEAR = ("aten::linear", "aten::mkldnn_linear", "mkldnn::_linear_pointwise")


@dataclass(frozen=True)
class _Arguments:
    """Where a convolution's arguments stand; input and weight are the first two of each."""

    stride: int
    padding: int
    dilation: int | None = None
    transposed: int | bool = False
    groups: int | None = None
    output_padding: int | None = None


_FORWARD = _Arguments(3, 4, 5, groups=6)
_TRANSPOSED = _Arguments(3, 4, 7, transposed=True, groups=6, output_padding=5)
_EITHER = _Arguments(3, 4, 5, transposed=6, groups=8, output_padding=7)
_KERNEL_SIZE_FIRST = _Arguments(4, 5, 6)
CONVOLUTIONS = {
    **{f"aten::conv{space}d": _FORWARD for space in (1, 2, 3)},
    **{f"aten::conv_transpose{space}d": _TRANSPOSED for space in (1, 2, 3)},
    "aten::convolution": _EITHER,
    "aten::_convolution": _EITHER,
    "aten::convolution_overrideable": _EITHER,
    "aten::mkldnn_convolution": _Arguments(4, 3, 5, groups=6),
    "aten::miopen_convolution": _Arguments(4, 3, 5, groups=6),
    "aten::cudnn_convolution": _Arguments(3, 2, 4, groups=5),
    "aten::cudnn_convolution_relu": _FORWARD,
    "aten::cudnn_convolution_transpose": _Arguments(4, 2, 5, transposed=True, groups=6, output_padding=3),
    "aten::thnn_conv2d": _KERNEL_SIZE_FIRST,
    "aten::_slow_conv2d_forward": _KERNEL_SIZE_FIRST,
    "aten::slow_conv_dilated2d": _KERNEL_SIZE_FIRST,
    "aten::slow_conv3d": _KERNEL_SIZE_FIRST,
    "aten::slow_conv3d_forward": _KERNEL_SIZE_FIRST,
    "aten::_conv_depthwise2d": _KERNEL_SIZE_FIRST,
    "aten::conv_depthwise3d": _KERNEL_SIZE_FIRST,
}
"""Convolutions, and where their arguments stand."""

CONVOLUTION_BACKWARD = ("aten::convolution_backward", "aten::convolution_backward_overrideable")
ATTENTION = re.compile(
    r"aten::(_?scaled_dot_product_\w+|_(flash|efficient|cudnn)_attention_(forward|backward))"
)
VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "expand_as", "as_strided",
        "select", "slice", "narrow", "split", "split_with_sizes", "chunk", "unbind", "squeeze", "unsqueeze",
        "flatten", "unflatten", "detach", "detach_", "alias", "resolve_conj", "resolve_neg", "view_as",
        "lift_fresh", "result_type", "diagonal", "unfold", "movedim", "swapaxes", "numpy_T", "mT", "empty",
        "empty_like", "empty_strided", "_reshape_alias", "broadcast_tensors", "real", "view_as_real",
        "view_as_complex", "set_",
    )
)  # fmt: skip
"""Operators that move no bytes of a tensor's storage."""

POINTWISE = frozenset(
    f"aten::{name}"
    for name in (
        "add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "true_divide", "neg", "abs",
        "sign", "exp", "exp_", "log", "log1p", "sqrt", "rsqrt", "square", "pow", "reciprocal", "sin", "cos",
        "tanh", "tanh_", "sigmoid", "sigmoid_", "relu", "relu_", "relu6", "gelu", "silu", "silu_", "mish",
        "elu", "leaky_relu", "leaky_relu_", "hardtanh", "hardtanh_", "hardswish", "hardswish_",
        "hardsigmoid", "softplus", "clamp", "clamp_", "clamp_min", "clamp_min_", "clamp_max", "maximum",
        "minimum", "where",
        "masked_fill", "masked_fill_", "lerp", "addcmul", "addcmul_", "addcdiv", "addcdiv_", "erf", "erfc",
        "logical_not", "logical_and", "logical_or", "bitwise_not", "bitwise_and", "eq", "ne", "lt", "le",
        "gt", "ge", "dropout", "dropout_", "native_dropout", "_to_copy", "clone",
        "threshold", "threshold_backward", "tanh_backward", "sigmoid_backward", "gelu_backward",
        "silu_backward", "elu_backward", "leaky_relu_backward", "hardtanh_backward", "hardswish_backward",
        "native_dropout_backward", "softplus_backward", "mish_backward",
    )
)  # fmt: skip
"""One element out for one element of the broadcast inputs."""

CONVERTING = frozenset({"aten::to", "aten::type_as", "aten::contiguous"})
"""Operators that call another one if anything is to be done at all."""

NORMALISING = frozenset(
    f"aten::{name}"
    for name in (
        "layer_norm", "native_layer_norm", "native_layer_norm_backward", "batch_norm", "group_norm",
        "native_group_norm", "native_group_norm_backward", "instance_norm", "rms_norm", "_fused_rms_norm",
        "native_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm", "cudnn_batch_norm_backward",
        "softmax", "_softmax", "log_softmax", "_log_softmax", "_softmax_backward_data",
        "_log_softmax_backward_data",
    )
)  # fmt: skip
"""Statistics over some dimensions, then one element out for each in."""

REDUCING = frozenset(
    f"aten::{name}"
    for name in ("sum", "mean", "amax", "amin", "max", "min", "norm", "linalg_vector_norm", "argmax", "std",
                 "var", "prod", "any", "all", "count_nonzero")
)  # fmt: skip
WRITING = frozenset(f"aten::{name}" for name in ("zero_", "fill_", "normal_", "uniform_", "bernoulli_"))


def has_formula(name: str) -> bool:
    """Whether the arithmetic of this operator can be counted."""
    return (
        name in PRODUCTS or name in LINEAR or name in CONVOLUTIONS or name in CONVOLUTION_BACKWARD
        or ATTENTION.fullmatch(name) is not None
    )  # fmt: skip


def flops(name: str, signature: Signature) -> float | None:
    """Floating-point operations of one call, ``None`` where no formula or no shapes are known.

    Products of matrices: 2 m k n for each in a batch. Convolutions: 2 x elements of the output x weights
    of one output channel; transposed ones 2 x elements of the input x weights of one input channel;
    backward once that for each of the two gradients asked for. Attention over L queries and S keys of
    width E: 2 L S E twice for each head, backward 2.5 times that (five products instead of two).
    """
    shapes = signature.shapes
    if name in PRODUCTS:
        first = PRODUCTS[name]
        return _product(*shapes[first : first + 2]) if len(shapes) > first + 1 else None
    if name in LINEAR:
        known = len(shapes) > 1 and len(shapes[1]) == 2
        return 2.0 * elements(shapes[0]) * shapes[1][0] if known else None
    if name in CONVOLUTION_BACKWARD:
        return _convolution_backward(signature)
    if name in CONVOLUTIONS:
        return _convolution(name, signature)
    if ATTENTION.fullmatch(name):
        return _attention(name, shapes)
    return None


def bytes_moved(name: str, signature: Signature) -> float | None:
    """Bytes that one call reads and writes at least: its inputs and its output, each once."""
    if name in VIEWS:
        return 0.0
    if not signature.tensors:
        return None
    size = SIZES[signature.dtype or "float32"]
    if name in WRITING:
        return float(signature.elements * size)
    if name in REDUCING:
        return float(signature.input_bytes)
    written = output_elements(name, signature)
    return None if written is None else float(signature.input_bytes + written * size)


def output_elements(name: str, signature: Signature) -> int | None:
    """Elements of the output, where the inputs tell."""
    shapes = signature.shapes
    if name in POINTWISE or name in NORMALISING:
        return signature.elements
    if name in PRODUCTS:
        first = PRODUCTS[name]
        if len(shapes) <= first + 1 or _product(*shapes[first : first + 2]) is None:
            return None
        left, right = shapes[first : first + 2]
        return elements(left[:-1]) * (right[-1] if len(right) > 1 else 1)
    if name in LINEAR and len(shapes) > 1 and shapes[0] and shapes[1]:
        return elements(shapes[0][:-1]) * shapes[1][0]
    if name in CONVOLUTION_BACKWARD and len(shapes) > 2:
        return elements(shapes[1]) + elements(shapes[2])
    if name in CONVOLUTIONS:
        output = _output(name, signature)
        return None if output is None else elements(output)
    if ATTENTION.fullmatch(name):
        return elements(shapes[0]) if shapes else None
    return None


def _product(left: tuple[int, ...], right: tuple[int, ...]) -> float | None:
    if not left or not right or left[-1] != right[max(len(right) - 2, 0)]:
        return None
    batch = elements(left[:-1]) if len(left) >= len(right) else elements(right[:-2]) * elements(left[-2:-1])
    return 2.0 * batch * left[-1] * (right[-1] if len(right) > 1 else 1)


def _attention(name: str, shapes: Shapes) -> float | None:
    backward = name.endswith("backward")
    query, key, value = (*shapes[backward : backward + 3], (), (), ())[:3]
    if len(query) < 3 or len(key) != len(query) or len(value) != len(query):
        return None
    # the kernels called below take (batch, length, heads, width), the public ones (..., length, width)
    length = -3 if "_attention_forward" in name or "_attention_backward" in name else -2
    if len(query) < -length:
        return None
    heads = elements(query[:-1]) // max(query[length], 1)
    forward = 2.0 * heads * query[length] * key[length] * (query[-1] + value[-1])
    return forward * 2.5 if backward else forward


def _convolution(name: str, signature: Signature) -> float | None:
    output = _output(name, signature)
    if output is None:
        return None
    image, weight = signature.shapes[:2]
    if _is_transposed(name, signature):
        return 2.0 * elements(image) * elements(weight[1:])
    return 2.0 * elements(output) * elements(weight[1:])


def _convolution_backward(signature: Signature) -> float | None:
    shapes, concrete = signature.shapes, signature.concrete
    if len(shapes) < 3 or min(len(shape) for shape in shapes[:3]) < 3:
        return None
    gradient, image, weight = shapes[:3]
    transposed = len(concrete) > 7 and concrete[7] == "True"
    wanted = re.findall(r"True|False", concrete[10])[:2].count("True") if len(concrete) > 10 else 2
    return 2.0 * elements(image if transposed else gradient) * elements(weight[1:]) * wanted


def _is_transposed(name: str, signature: Signature) -> bool:
    where = CONVOLUTIONS[name].transposed
    return where if isinstance(where, bool) else signature.concrete[where : where + 1] == ("True",)


def _output(name: str, signature: Signature) -> tuple[int, ...] | None:
    """Shape of a convolution's output, ``None`` where its stride was not recorded.

    Sizes that were recorded in another form count as torch's defaults.
    """
    if not signature.concrete:
        return None
    shapes, concrete = signature.shapes, signature.concrete
    if len(shapes) < 2 or len(shapes[0]) < 3 or len(shapes[1]) != len(shapes[0]):
        return None
    image, weight = shapes[:2]
    at, space = CONVOLUTIONS[name], len(image) - 2
    if concrete[at.padding : at.padding + 1] == ("same",):
        return (image[0], weight[0], *image[2:])
    stride, padding = _sizes(concrete, at.stride, space, 1), _sizes(concrete, at.padding, space, 0)
    dilation = _sizes(concrete, at.dilation, space, 1)
    reach = [spread * (kernel - 1) + 1 for spread, kernel in zip(dilation, weight[2:], strict=True)]
    sizes = list(zip(image[2:], stride, padding, reach, strict=True))
    if _is_transposed(name, signature):
        extra = _sizes(concrete, at.output_padding, space, 0)
        out = [(size - 1) * step - 2 * pad + kernel for size, step, pad, kernel in sizes]
        channels = weight[1] * _sizes(concrete, at.groups, 1, 1)[0]
        return (image[0], channels, *(size + more for size, more in zip(out, extra, strict=True)))
    return (
        image[0],
        weight[0],
        *((size + 2 * pad - kernel) // step + 1 for size, step, pad, kernel in sizes),
    )


def _sizes(concrete: tuple[str, ...], at: int | None, count: int, default: int) -> list[int]:
    """The numbers of one argument, one for each dimension."""
    text = concrete[at] if at is not None and at < len(concrete) else ""
    found = [int(each) for each in re.findall(r"-?\d+", text)]
    if len(found) == 1:
        found *= count
    return found if len(found) == count and (default == 0 or min(found) > 0) else [default] * count
