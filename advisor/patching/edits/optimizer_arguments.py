"""Which of their implementations the program's optimizers update with."""

from collections.abc import Mapping

import libcst as cst

from advisor.patching.source.call_arguments import (
    argument,
    expression,
    has_stars,
    literal,
    with_argument,
    without_argument,
)
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_sites import every_optimizer, optimizer_class
from advisor.patching.source.program_source import Site, Source

FUSED = ("Adagrad", "Adam", "AdamW", "SGD")
ONE_FORM = ("LBFGS", "Muon", "SparseAdam")
FORMS: dict[object, tuple[str, str] | None] = {
    "default": None,
    "for-loop": ("foreach", "False"),
    "foreach": ("foreach", "True"),
    "fused": ("fused", "True"),
}


class OptimizerArguments(Edit):
    """Sets ``fused`` or ``foreach`` in each call that makes an optimizer, and takes the other one out.

    All optimizers were measured in one form, so all are edited, or none.
    """

    knobs = ("optimizer_implementation",)

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Both are keywords only; torch rejects them together."""
        form = FORMS[asked["optimizer_implementation"].after]
        made = every_optimizer(source)
        if any(each.node.evaluated_value in ("foreach", "fused") for each in source.sites(cst.SimpleString)):
            raise CannotEdit("`foreach` or `fused` is set by name somewhere else")
        return source.replaced({site.node: _in_form(source, site, form) for site in made})


def _in_form(source: Source, site: Site[cst.Call], form: tuple[str, str] | None) -> cst.Call:
    """The call that makes an optimizer, with the argument of a form and without the other's.

    Raises:
        CannotEdit: Its class has no such form, or its arguments cannot be read.
    """
    name, call = optimizer_class(source, site), site.node
    if has_stars(call):
        raise CannotEdit("arguments of the optimizer are unpacked from a list or dictionary")
    if form is not None and (name in ONE_FORM or (form[0] == "fused" and name not in FUSED)):
        raise CannotEdit(f"{name} has no {form[0]} form")
    for other in ("foreach", "fused"):
        present = argument(call, other)
        if present is not None and literal(present.value) is ...:
            raise CannotEdit(f"{other} is computed as `{source.text(present.value)}`")
        if form is None or form[0] != other:
            call = without_argument(call, other)
    return call if form is None else with_argument(call, form[0], expression(form[1]))
