"""Which recorded operators the units for fewer bits could compute, and how much faster those units are.

Functions over one profile or window, shared by the rules about precision, layout and padding.
"""

from collections.abc import Iterable
from math import prod

from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost, Window

COMPUTE = ("forward", "backward", "optimizer")
LOW = ("float16", "bfloat16")
BF16_CAPABILITY = (8, 0)  # the first NVIDIA generation with bfloat16 and TF32 units
CAPTURING = "the recorded steps capture a graph: its kernels are noted down and do not run"
NO_RATE = "was not measured, nor does a data sheet of the device tell it"
UNTYPED = "were not recorded, nor do names of kernels tell them: `record_shapes=True` would"
TILE = 8  # the shortest side of a product that tensor cores and bf16 units do not pad

MATMULS = frozenset({
    "aten::mm", "aten::addmm", "aten::_addmm_activation", "aten::bmm", "aten::baddbmm", "aten::addbmm",
    "aten::mv", "aten::addmv", "aten::mkldnn_linear", "mkldnn::_linear_pointwise",
})  # fmt: skip
CONVOLUTIONS = frozenset({
    "aten::mkldnn_convolution", "aten::cudnn_convolution", "aten::cudnn_convolution_transpose",
    "aten::cudnn_convolution_relu", "aten::cudnn_convolution_add_relu", "aten::miopen_convolution",
    "aten::miopen_convolution_transpose", "aten::thnn_conv2d", "aten::_slow_conv2d_forward",
    "aten::_slow_conv2d_backward", "aten::slow_conv3d_forward", "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d", "aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
    "aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::convolution_overrideable",
    "aten::convolution_backward", "aten::convolution_backward_overrideable", "aten::_convolution",
    "aten::cudnn_convolution_backward_input", "aten::cudnn_convolution_backward_weight",
    "mkldnn::_convolution_pointwise", "mkldnn::_convolution_transpose_pointwise",
})  # fmt: skip
RECURRENT = frozenset({
    "aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward", "aten::_cudnn_rnn",
    "aten::_cudnn_rnn_backward", "aten::miopen_rnn", "aten::miopen_rnn_backward",
})  # fmt: skip
ATTENTIONS = frozenset({
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_flash_attention_forward", "aten::_flash_attention_backward",
    "aten::_efficient_attention_forward", "aten::_efficient_attention_backward",
    "aten::_cudnn_attention_forward", "aten::_cudnn_attention_backward",
})  # fmt: skip
"""Those that multiply: what calls them (``aten::linear``, ``aten::conv2d``) only passes on.

Beside passing on, ``aten::_convolution`` itself holds transposed convolutions on a CPU.
"""

TRANSPOSED = frozenset({
    "aten::_convolution", "aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose",
    "aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
    "mkldnn::_convolution_transpose_pointwise",
})  # fmt: skip

ADDED_FIRST = frozenset({
    "aten::addmm", "aten::_addmm_activation", "aten::baddbmm", "aten::addbmm", "aten::addmv",
})  # fmt: skip
WEIGHT_TRANSPOSED = frozenset({"aten::mkldnn_linear", "mkldnn::_linear_pointwise"})


def computing(window: Window, names: Iterable[str] | None = None, *dtypes: str) -> tuple[OpCost, ...]:
    """Operators of forward, backward and optimizer, of some names and first inputs' types if given."""
    wanted = None if names is None else frozenset(names)
    return tuple(
        op
        for op in window.ops
        if op.phase in COMPUTE
        and (wanted is None or op.name in wanted)
        and (not dtypes or op.dtype in dtypes)
    )


def matmuls(window: Window, *dtypes: str) -> tuple[OpCost, ...]:
    """Matrix products large enough for units that compute in tiles."""
    return tuple(op for op in computing(window, MATMULS, *dtypes) if fills_units(op))


def convolutions(window: Window, *dtypes: str) -> tuple[OpCost, ...]:
    """Convolutions and their gradients with enough channels for units that compute in tiles."""
    return tuple(op for op in computing(window, CONVOLUTIONS, *dtypes) if fills_units(op))


def castable(window: Window, *dtypes: str) -> tuple[OpCost, ...]:
    """What autocast would compute in 16 bits: products, convolutions, recurrent layers, attention."""
    others = computing(window, RECURRENT | ATTENTIONS, *dtypes)
    return (*matmuls(window, *dtypes), *convolutions(window, *dtypes), *others)


def untyped(window: Window) -> bool:
    """Whether what autocast would compute is there, and of none of it the type of its inputs is known."""
    found = castable(window)
    return bool(found) and all(op.dtype is None for op in found)


def spent_ms(ops: Iterable[OpCost]) -> float:
    """Their self time per step."""
    return sum(op.self_ms for op in ops)


def share_of_compute(window: Window, ms: float) -> float:
    """Share (0 to 1) that so much time takes of all operators in forward, backward and optimizer."""
    return min(1.0, ms / window.compute_ms) if window.compute_ms > 0 else 0.0


def clean_step_ms(profile: Profile) -> float | None:
    """The steady-state step: as watched, else as recorded. ``None`` without either."""
    phases, window = profile.phases, profile.window
    if phases is not None and phases.step_ms > 0:
        return phases.step_ms
    if window is not None and (window.clean_step_ms or window.step_ms) > 0:
        return window.clean_step_ms or window.step_ms
    return None


def share_of_step(profile: Profile, ms: float) -> float:
    """Share (0 to 1) that so much time takes of the steady-state step."""
    step_ms = clean_step_ms(profile)
    return min(1.0, ms / step_ms) if step_ms else 0.0


def sides(op: OpCost) -> tuple[int, int, int] | None:
    """Rows, inner size and columns of a matrix product, a batch of them aside; ``None`` where not known."""
    if op.name not in MATMULS:
        return None
    first = 1 if op.name in ADDED_FIRST else 0
    operands = op.shapes[first : first + 2]
    if len(operands) < 2 or not operands[0] or not operands[1]:
        return None
    left, right = operands
    if op.name in WEIGHT_TRANSPOSED:
        return prod(left[:-1]), left[-1], right[0]
    if len(left) < 2:
        return None
    return left[-2], left[-1], right[-1] if len(right) > 1 else 1


def convolved(op: OpCost) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shapes of a convolution's input and weight; ``None`` where not known."""
    if op.name not in CONVOLUTIONS:
        return None
    first = 1 if "backward" in op.name else 0
    operands = op.shapes[first : first + 2]
    if len(operands) < 2 or min(len(shape) for shape in operands) < 3 or len(op.shapes[0]) < 3:
        return None
    return operands[0], operands[1]


def dense(op: OpCost) -> bool:
    """Whether each output channel of a convolution reads all input channels; so unless shapes deny it."""
    shapes = convolved(op)
    if shapes is None:
        return True
    inputs, weight = shapes
    if "backward" in op.name and op.shapes[0][1:2] != weight[:1]:  # transposed: (inputs, outputs / groups)
        return weight[1] >= op.shapes[0][1]
    return op.name in TRANSPOSED or weight[1] >= inputs[1]


def fills_units(op: OpCost) -> bool:
    """Whether a product is wide enough on all sides for units that compute in tiles; so if not known."""
    product, shapes = sides(op), convolved(op)
    if product is not None:
        return min(product) >= TILE
    if shapes is not None:
        return min(shapes[1][:2]) >= TILE
    return True


def capability(profile: Profile) -> tuple[int, int] | None:
    """Compute capability of the CUDA device in use; ``None`` on a CPU or where it is not known."""
    if not profile.device.startswith("cuda"):
        return None
    ordinal = int(profile.device.partition(":")[2] or 0)
    gpus = profile.machine.gpus[ordinal : ordinal + 1] or profile.machine.gpus
    return min((gpu.capability for gpu in gpus), default=None)


def speedup(profile: Profile, low: str, over: str = "float32") -> float | None:
    """Rate of a matmul in ``low`` over one in ``over``; ``None`` where one of them is not known.

    Args:
        profile: Of the run.
        low: A type as in ``Rates``; ``float32_medium`` counts as bfloat16 on a CPU where only that is known.
        over: What the program uses now.
    """
    on_cpu = not profile.device.startswith("cuda")
    names = [low, "bfloat16"] if on_cpu and low == "float32_medium" else [low]
    if profile.rates is not None:
        slow = profile.rates.flops(over)
        for name in names:
            fast = profile.rates.flops(name)
            if fast and slow:
                return fast / slow
    if on_cpu and over == "float32" and "bfloat16" in names:
        return profile.machine.bf16_speedup
    return None
