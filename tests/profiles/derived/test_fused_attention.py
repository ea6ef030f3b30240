"""Timing torch's fused attention at the shapes of a program."""

from advisor.profiles.derived.fused_attention import fused_ms


def test_larger_shapes_take_longer() -> None:
    shapes = [(1, 2, 16, 16, 8), (4, 8, 256, 256, 64)]
    small, large = fused_ms(shapes, [None, None], device="cpu", limit_s=10.0)
    assert small is not None and large is not None and large > 1.3 * small > 0


def test_what_is_no_attention_or_too_large_is_left_out() -> None:
    shapes = [(), (64, 64, 8192, 8192, 128)]
    assert fused_ms(shapes, [None, None], device="cpu", limit_s=10.0) == [None, None]


def test_no_shape_is_begun_after_the_limit() -> None:
    assert fused_ms([(1, 2, 16, 16, 8)], [None], device="cpu", limit_s=-1.0) == [None]


def test_the_type_is_that_of_the_program() -> None:
    assert fused_ms([(1, 2, 16, 16, 8)], ["bfloat16"], device="cpu", limit_s=10.0)[0] is not None
