"""The model compiled in place."""

from collections.abc import Mapping

import libcst as cst

from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_sites import (
    before_optimizer,
    refuse_ranks,
    refuse_reassigned,
    trained_model,
    training_calls,
)
from advisor.patching.source.program_source import Source
from advisor.tuners.mechanisms.compiling import COMPILE, FREEZING, mode_of

DYNAMIC: dict[object, str] = {"on": "dynamic=True", "off": "dynamic=False"}


class Compile(Edit):
    """Puts ``model.compile()`` before the optimizer is made.

    In place rather than ``model = torch.compile(model)``: names in checkpoints stay as they are, and whatever
    else refers to the model gets the compiled one, too.
    """

    knobs = ("execution", "dynamic", "compile_region")

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Mode and shapes as asked; regions and TorchScript are left to the user."""
        execution, dynamic = asked.get("execution"), asked.get("dynamic")
        if execution is None or not str(execution.after).startswith(COMPILE):
            raise CannotEdit("only compiling the whole model is edited")
        if execution.after == FREEZING:
            raise CannotEdit("weights are frozen for the whole process, where a program begins to answer")
        if "compile_region" in asked:
            raise CannotEdit("which blocks to compile depends on how the model is built")
        if _compiles(source):
            raise CannotEdit("the program compiles something itself")
        model = trained_model(source)
        refuse_ranks(source)
        refuse_reassigned(source, model)
        training_calls(source, model)
        mode = mode_of(str(execution.after))
        arguments = [f'mode="{mode}"'] if mode else []
        if dynamic is not None and dynamic.after in DYNAMIC:
            arguments.append(DYNAMIC[dynamic.after])
        line = f"{model.name}.compile({', '.join(arguments)})"
        return source.replaced(before_optimizer(source, model, line))


def _compiles(source: Source) -> bool:
    """Whether ``torch.compile`` is named, or something that is no module is compiled."""
    named = [site for site in source.everything if source.path(site.node) == "torch.compile"]
    return bool(named) or any(source.path(site.node.func) is None for site in source.methods(COMPILE))
