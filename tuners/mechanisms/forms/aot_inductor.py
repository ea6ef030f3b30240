"""A model compiled ahead of time by AOTInductor: no compiling when a process starts.

The package holds code for the CPU it was made on (``-march=native``) and runs on no lesser one.
"""

from typing import Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import exported, fitting, sizes_of
from advisor.tuners.mechanisms.forms.form import FAILURES, Form, Source, first_line

LOADING = """import torch
model = torch._inductor.aoti_load_package("{name}")
output = model(*inputs)"""


def aot_inductor_form(source: Source) -> Form:
    """The model as a ``.pt2`` package, and that loaded. Making it takes about a minute.

    Raises:
        Refused: The model cannot be exported or compiled, or there is no C++ compiler.
    """
    import torch

    program = exported(source)
    path = source.folder / "model.pt2"
    try:
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))
        loaded = torch._inductor.aoti_load_package(str(path))
    except (OSError, *FAILURES) as error:
        raise Refused(f"AOTInductor: {first_line(error)}") from None

    taken = fitting(source.example, sizes_of(program))

    def run(*args: Any, **kwargs: Any) -> Any:
        if taken((args, kwargs)) is None:
            return source.answer(*args, **kwargs)
        return loaded(*args, **kwargs)

    return Form(run, path, LOADING.format(name=path.name), "aot_inductor")
