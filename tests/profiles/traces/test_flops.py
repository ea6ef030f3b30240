from collections.abc import Callable
from pathlib import Path

import pytest
from trace_builder import a_recording

from advisor.profiles.traces.flops import bytes_moved, flops
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.signatures import Signature


def _tensors(*shapes: tuple[int, ...], dtype: str = "float32", concrete: tuple[str, ...] = ()) -> Signature:
    return Signature(shapes, tuple(dtype if shape else None for shape in shapes), concrete)


def _linear() -> Callable[[], object]:
    import torch
    from torch.nn import Linear

    layers, batch = torch.nn.Sequential(Linear(24, 40), torch.nn.ReLU(), Linear(40, 6)), torch.randn(3, 5, 24)
    return lambda: layers(batch).sum().backward()


def _products() -> Callable[[], object]:
    import torch

    one, three = torch.randn(7, 9, requires_grad=True), torch.randn(4, 9, 5, requires_grad=True)
    return lambda: (
        torch.baddbmm(torch.zeros(1), one.expand(4, 7, 9), three).sum() + (one @ one.T).sum()
    ).backward()


def _convolutions() -> Callable[[], object]:
    import torch
    from torch.nn import Conv1d, Conv2d, ConvTranspose2d

    image, sound = torch.randn(2, 4, 11, 13), torch.randn(2, 4, 30)
    first = Conv2d(4, 8, 3, stride=2, padding=1, dilation=2)  # torch counts gradients of groups too high
    second, flat = ConvTranspose2d(8, 5, 3, stride=2, output_padding=1), Conv1d(4, 6, 5, padding="same")
    return lambda: (second(first(image)).sum() + flat(sound).sum()).backward()


def _attention() -> Callable[[], object]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    query, key = (torch.randn(2, 3, length, 8, requires_grad=True) for length in (16, 12))

    def step() -> None:
        with sdpa_kernel(SDPBackend.MATH):  # what torch counts on a CPU
            torch.nn.functional.scaled_dot_product_attention(query, key, key).sum().backward()

    return step


@pytest.mark.parametrize("make", [_linear, _products, _convolutions, _attention])
def test_a_step_has_the_arithmetic_that_torch_itself_counts(
    make: Callable[[], Callable[[], object]], tmp_path: Path
) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    step = make()
    window = window_of(a_recording(tmp_path, step), clean_step_ms=None)
    with FlopCounterMode(display=False) as counter:
        step()
    counted = sum(op.calls * op.flops for op in window.ops if op.flops)
    assert counted == pytest.approx(counter.get_total_flops())


def test_backward_of_a_convolution_counts_the_gradients_that_are_asked_for() -> None:
    shapes = ((2, 8, 5, 5), (2, 4, 7, 7), (8, 4, 3, 3), (), (), (), (), (), (), (), ())
    half = ("", "", "", "[8]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, True]")
    both = (*half[:-1], "[True, True, True]")
    name = "aten::convolution_backward"
    once = flops(name, _tensors(*shapes, concrete=half))
    assert once == 2 * (2 * 8 * 5 * 5) * (4 * 3 * 3)
    assert flops(name, _tensors(*shapes, concrete=both)) == 2 * once


def test_groups_of_channels_divide_the_arithmetic_of_a_convolution() -> None:
    whole = ((2, 4, 9, 9), (8, 4, 3, 3), (), (), (), (), ())
    halves = ((2, 4, 9, 9), (8, 2, 3, 3), (), (), (), (), ())
    arguments = ("", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "2")
    counted = flops("aten::conv2d", _tensors(*whole, concrete=(*arguments[:-1], "1")))
    assert counted == 2 * (2 * 8 * 7 * 7) * (4 * 3 * 3)
    assert flops("aten::conv2d", _tensors(*halves, concrete=arguments)) == counted / 2


def test_backward_of_attention_takes_five_products_to_the_two_of_forward() -> None:
    shapes = ((2, 3, 16, 8), (2, 3, 12, 8), (2, 3, 12, 8))
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    forward, backward = (
        flops(name, _tensors(*shapes)),
        flops(f"{name}_backward", _tensors(shapes[0], *shapes)),
    )
    assert forward == 2 * 6 * 16 * 12 * 16
    assert backward == 2.5 * forward


def test_kernels_of_attention_hold_their_heads_after_the_length() -> None:
    public = _tensors((2, 3, 16, 8), (2, 3, 12, 8), (2, 3, 12, 8))
    inner = _tensors((2, 16, 3, 8), (2, 12, 3, 8), (2, 12, 3, 8))
    counted = flops("aten::scaled_dot_product_attention", public)
    assert counted == flops("aten::_flash_attention_forward", inner) == 2 * 6 * 16 * 12 * 16


@pytest.mark.parametrize(
    ("name", "shapes", "moved"),
    [
        ("aten::add", ((8, 4), (8, 4), ()), 4 * 3 * 32),
        ("aten::mul", ((8, 4), (4,)), 4 * (32 + 4 + 32)),
        ("aten::mm", ((8, 4), (4, 2)), 4 * (32 + 8 + 16)),
        ("aten::transpose", ((8, 4), (), ()), 0),
        ("aten::zero_", ((8, 4),), 4 * 32),
        ("aten::sum", ((8, 4), ()), 4 * 32),
    ],
)
def test_bytes_are_those_of_inputs_and_output(
    name: str, shapes: tuple[tuple[int, ...], ...], moved: int
) -> None:
    assert bytes_moved(name, _tensors(*shapes)) == moved


def test_narrower_types_move_fewer_bytes() -> None:
    assert bytes_moved("aten::relu", _tensors((8, 4), dtype="bfloat16")) == 2 * 2 * 32


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("aten::mm", Signature()),
        ("aten::mm", _tensors((8, 4))),
        ("aten::mm", _tensors((8, 4), (5, 2))),
        ("aten::linear", _tensors((8, 4))),
        ("aten::conv2d", _tensors((8, 4), (4,))),
        ("aten::conv2d", _tensors((1, 4, 9, 9), (8, 4, 3, 3), concrete=("", "", "", "[0, 0]"))),
        ("aten::convolution_backward", _tensors((8, 4))),
        ("aten::scaled_dot_product_attention", _tensors((8,), (8,), (8,))),
        ("aten::my_operator", _tensors((8, 4))),
    ],
)
def test_what_is_not_known_is_not_guessed(name: str, signature: Signature) -> None:
    counted = flops(name, signature)
    assert counted is None or (counted > 0 and name == "aten::conv2d" and len(signature.shapes[0]) == 4)
