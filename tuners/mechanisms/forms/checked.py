"""A form that is served only if it answers, and one of 8 bits if its kernels compute what its weights say."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Inputs
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import leaves
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line

if TYPE_CHECKING:
    from advisor.tuners.accuracy.kernel_reference import KernelCheck
    from advisor.tuners.accuracy.outputs import Output

CALLS = 16  # on which kernels are compared: saturation shows in the first
SIZES = 4  # of inputs, with which a form is tried before it is served
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


def answering(source: Source, form: Form) -> Form:
    """The form, once it has answered requests of the sizes that are known.

    Raises:
        Refused: It cannot.
    """
    import torch

    known: dict[object, Inputs] = {}
    for call in (source.example, *source.calibration):
        known.setdefault(tuple(leaf.shape for leaf in leaves(call)), call)
    with torch.no_grad():
        _answers(form.call, list(known.values())[:SIZES])
    return form


def compared(source: Source, form: Form) -> "KernelCheck | None":
    """The kernels of a form beside its dequantised reference; ``None`` where there is no reference.

    Raises:
        Refused: The form cannot answer.
    """
    import torch

    from advisor.tuners.accuracy.kernel_reference import kernel_check

    if form.reference is None:
        answering(source, form)
        return None
    calls = [source.example, *source.calibration][:CALLS]
    with torch.no_grad():
        own, reference, other = (
            _answers(answer, calls) for answer in (source.answer, form.reference, form.call)
        )
    return kernel_check(own, reference, other)


def _answers(function: Callable[..., Any], calls: Sequence[Inputs]) -> "list[Output]":
    from advisor.tuners.accuracy.outputs import flattened

    try:
        return [flattened(function(*args, **kwargs)) for args, kwargs in calls]
    except FAILURES as error:
        raise Refused(f"it cannot answer: {first_line(error)}") from None
