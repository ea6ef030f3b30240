"""Whether an int8 kernel computes what its own quantised weights say.

On CPUs without VNNI products of 8 bits are added in pairs into 16 bits, which saturate: every output is then
wrong by some ten per cent, while the quantisation itself costs one (pytorch 103646, onnxruntime 5849).
Comparing with the original does not tell the two apart. The reference does: the same quantised weights and
activations, multiplied in floating point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.tuners.accuracy.agreement import relative_rms
from advisor.tuners.accuracy.outputs import Output

LEAST = 0.03
"""Relative: kernels that round activations elsewhere than the reference came to 0.012 on six paths, those
that saturate to 0.09 at least."""
TIMES = 2.0
"""The quantisation's own error, which a right kernel does not exceed by as much."""


@dataclass(frozen=True)
class KernelCheck:
    """Relative root mean squared errors of an int8 form.

    Attributes:
        kernel: Of the kernel from its dequantised reference.
        quantisation: Of that reference from the original.
    """

    kernel: float
    quantisation: float

    @property
    def saturated(self) -> bool:
        """Whether the kernel adds more than quantisation explains."""
        return self.kernel > max(LEAST, TIMES * self.quantisation)

    @property
    def told(self) -> str:
        """In a sentence."""
        figures = f"{self.kernel:.1%} from its own dequantised reference, which is {self.quantisation:.1%}"
        if self.saturated:
            return (
                f"the int8 kernel is {figures} from the original: sums of 16 bits saturate on this CPU "
                "(no VNNI); weights of 7 bits cannot"
            )
        return f"the int8 kernel is {figures} from the original"


def kernel_check(
    baseline: Sequence[Output], reference: Sequence[Output], candidate: Sequence[Output]
) -> KernelCheck:
    """Hold a kernel's outputs beside those of its dequantised reference, on the same samples.

    A reference of the wrong form (a NaN in it, say) counts as infinitely far.
    """
    return KernelCheck(relative_rms(reference, candidate), relative_rms(baseline, reference))
