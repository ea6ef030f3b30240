"""Which of its implementations the program's one optimizer updates with."""

from collections.abc import Mapping

import libcst as cst

from advisor.call_arguments import argument, expression, has_stars, literal, with_argument, without_argument
from advisor.edit import Asked, CannotEdit, Edit
from advisor.program_sites import only_optimizer, optimizer_class
from advisor.program_source import Source

FUSED = ("Adagrad", "Adam", "AdamW", "SGD")
ONE_FORM = ("LBFGS", "Muon", "SparseAdam")
FORMS: dict[object, tuple[str, str] | None] = {
    "default": None,
    "for-loop": ("foreach", "False"),
    "foreach": ("foreach", "True"),
    "fused": ("fused", "True"),
}


class OptimizerArguments(Edit):
    """Sets ``fused`` or ``foreach`` in the one call that makes the optimizer, and takes the other one out."""

    knobs = ("optimizer_implementation",)

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Both are keywords only; torch rejects them together."""
        form = FORMS[asked["optimizer_implementation"].after]
        site = only_optimizer(source)
        name, call = optimizer_class(source, site), site.node
        if has_stars(call):
            raise CannotEdit("arguments of the optimizer are unpacked from a list or dictionary")
        if form is not None and (name in ONE_FORM or (form[0] == "fused" and name not in FUSED)):
            raise CannotEdit(f"{name} has no {form[0]} form")
        if any(each.node.evaluated_value in ("foreach", "fused") for each in source.sites(cst.SimpleString)):
            raise CannotEdit("`foreach` or `fused` is set by name somewhere else")
        for other in ("foreach", "fused"):
            present = argument(call, other)
            if present is not None and literal(present.value) is ...:
                raise CannotEdit(f"{other} is computed as `{source.text(present.value)}`")
            if form is None or form[0] != other:
                call = without_argument(call, other)
        if form is not None:
            call = with_argument(call, form[0], expression(form[1]))
        return source.replaced({site.node: call})
