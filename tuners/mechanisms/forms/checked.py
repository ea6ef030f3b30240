"""A form of 8 bits that is served only if its kernels compute what its weights say on this CPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import Form, Source

if TYPE_CHECKING:
    from advisor.tuners.accuracy.kernel_reference import KernelCheck

CALLS = 16  # on which kernels are compared: saturation shows in the first
BITS: dict[str, tuple[int, ...]] = {"auto": (8, 7), "8": (8,), "7": (7,)}
"""Bits of weights by the value of the knob ``int8_range``, in the order in which they are tried."""


def checked_form(source: Source, make: Callable[[int], Form], int8_range: str) -> tuple[Form, int]:
    """The first form whose kernels are right, and the bits of its weights.

    Args:
        source: The model as it is.
        make: Gives the form for a number of bits.
        int8_range: ``auto``, ``8`` or ``7``.

    Raises:
        Refused: No form is right, with the figures of the last, or none can be made.
    """
    told = ""
    for bits in BITS[int8_range]:
        form = make(bits)
        check = compared(source, form)
        if check is None or not check.saturated:
            return form, bits
        told = check.told
    raise Refused(told)


def compared(source: Source, form: Form) -> "KernelCheck | None":
    """The kernels of a form beside its dequantised reference; ``None`` where there is no reference."""
    import torch

    from advisor.tuners.accuracy.kernel_reference import kernel_check
    from advisor.tuners.accuracy.outputs import flattened

    if form.reference is None:
        return None
    calls = [source.example, *source.calibration][:CALLS]
    with torch.no_grad():
        own, reference, other = (
            [flattened(answer(*args, **kwargs)) for args, kwargs in calls]
            for answer in (source.answer, form.reference, form.call)
        )
    return kernel_check(own, reference, other)
