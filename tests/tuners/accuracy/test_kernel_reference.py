import numpy as np

from advisor.tuners.accuracy.kernel_reference import KernelCheck, kernel_check
from advisor.tuners.accuracy.outputs import Array, Output, flattened

GENERATOR = np.random.default_rng(3)
ROWS, DEPTH, WIDTH = 32, 256, 16


def saturating_product(left: Array, right: Array) -> Array:
    """Unsigned by signed 8 bits as pmaddubsw does it: sums of two products are held in 16 bits."""
    pairs = left.reshape(ROWS, DEPTH // 2, 2, 1).astype(np.int64) * right.reshape(DEPTH // 2, 2, WIDTH)
    summed: Array = np.clip(pairs.sum(2), -(2**15), 2**15 - 1).sum(1)
    return summed


def test_a_kernel_that_saturates_is_named_and_seven_bits_do_not() -> None:
    told = {bits: _check(bits) for bits in (8, 7)}
    assert told[8].saturated and not told[7].saturated
    assert told[8].kernel > 3 * told[8].quantisation
    assert "saturate" in told[8].told and "7 bits" in told[8].told
    assert told[7].kernel < 1e-6 < told[7].quantisation < 0.03


def test_rounding_elsewhere_is_no_saturation() -> None:
    own = [flattened(row) for row in GENERATOR.normal(size=(20, 8))]
    reference = [_moved(output, 0.012) for output in own]
    assert not kernel_check(own, reference, [_moved(output, 0.012) for output in reference]).saturated


def test_a_nan_of_the_kernel_is_told() -> None:
    own = [flattened(np.ones(3))]
    assert kernel_check(own, own, [flattened(np.full(3, np.nan))]).saturated


def _check(bits: int) -> KernelCheck:
    """Uniform weights, whose large values stand beside each other, under inputs that are never negative."""
    inputs = GENERATOR.uniform(0, 1, (ROWS, DEPTH))
    weights = GENERATOR.choice([-1.0, 1.0], (1, WIDTH)) * GENERATOR.uniform(0.5, 1, (DEPTH, WIDTH))
    most = 2 ** (bits - 1) - 1
    scale_in, scale = inputs.max() / 255, np.abs(weights).max() / most
    left = np.round(inputs / scale_in).astype(np.uint8)
    right = np.round(weights / scale).astype(np.int8)
    exact = left.astype(np.int64) @ right.astype(np.int64)
    forms = (inputs @ weights, exact * scale_in * scale, saturating_product(left, right) * scale_in * scale)
    return kernel_check(*([flattened(row) for row in form] for form in forms))


def _moved(output: Output, share: float) -> Output:
    values = output[""].values
    return flattened(values + GENERATOR.normal(size=values.shape) * share * np.sqrt(np.mean(values**2)))
