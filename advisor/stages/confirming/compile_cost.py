"""After how many steps the time spent compiling is won back."""

import math


def break_even_steps(
    compile_s: float | None, step_s: float, *, whole: float | None, alone: float | None = None
) -> int | None:
    """Steps after which what compiling cost is won back by what compiling saves; ``None`` when it never is.

    Args:
        compile_s: Seconds spent compiling.
        step_s: Seconds of a step of the unchanged program.
        whole: Step time of the unchanged program over that under all changes; ``None`` if unknown.
        alone: The same for compiling beside the other changes, where there are any: what those save pays for
            no compilation.
    """
    if not compile_s or whole is None:
        return None
    ratio = whole if alone is None else alone
    if ratio <= 1:
        return None
    return math.ceil(compile_s / (step_s / whole * (ratio - 1)))
