"""The learning rate of the program's one optimizer, scaled with its batch size."""

from collections.abc import Mapping

import libcst as cst

from advisor.patching.source.call_arguments import argument, expression, has_stars, with_argument
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_sites import only_optimizer
from advisor.patching.source.program_source import Source, dotted
from advisor.tuners.knobs.lr_scaling import warm_up

SCHEDULERS = "torch.optim.lr_scheduler."
RELATIVE = (
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearLR",
    "MultiplicativeLR", "MultiStepLR", "PolynomialLR", "SequentialLR", "StepLR",
)  # fmt: skip
"""Schedulers that multiply the rate they begin with; others name rates of their own."""
SIMPLE = (cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.Call, cst.Subscript)


class LearningRate(Edit):
    """Multiplies the argument ``lr`` by the factor of the batch sizes, or by its root.

    The rate itself stays where it is written, also when it comes from an option.
    """

    knobs = ("lr_scaling",)
    left = "edited; these lines let the training approach the raised rate, and are not edited"

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Together with the batch size that it follows."""
        rule, batch = asked["lr_scaling"].after, asked.get("batch_size")
        if rule not in ("linear", "sqrt"):
            raise CannotEdit(f"advisor does not edit the rule `{rule}`")
        if batch is None:
            raise CannotEdit("the batch size that the learning rate is to follow does not change")
        site = only_optimizer(source)
        rate = None if has_stars(site.node) else argument(site.node, "lr", ("params", "lr"))
        if rate is None:
            raise CannotEdit("the optimizer is made without an argument lr")
        _refuse_other_rates(source)
        scaled = cst.BinaryOperation(
            _in_brackets(rate.value),
            cst.Multiply(),
            expression(_factor(int(batch.before), int(batch.after), rule)),
        )
        return source.replaced({site.node: with_argument(site.node, "lr", scaled, ("params", "lr"))})

    def unwritten(self, asked: Mapping[str, Asked]) -> str:
        """The warm-up of a rate that is raised."""
        rule, batch = asked["lr_scaling"].after, asked["batch_size"]
        before, after = int(batch.before), int(batch.after)
        return warm_up(_factor(before, after, rule)) if after > before else ""


def _factor(before: int, after: int, rule: object) -> str:
    times = str(after // before) if after % before == 0 else f"({after} / {before})"
    return times if rule == "linear" else f"{times}**0.5"


def _in_brackets(value: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(value, SIMPLE) or value.lpar:
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _refuse_other_rates(source: Source) -> None:
    """Refuse programs that set rates anywhere else: they would not follow."""
    if any(each.node.evaluated_value == "lr" for each in source.sites(cst.SimpleString)):
        raise CannotEdit('learning rates are also set or read as `["lr"]`')
    for site in source.sites(cst.Call):
        path, written = source.path(site.node.func) or "", dotted(site.node.func) or ""
        name = path.removeprefix(SCHEDULERS) if path.startswith(SCHEDULERS) else None
        floor = argument(site.node, "eta_min", ("optimizer", "T_max", "eta_min"))
        if name is not None and (name not in RELATIVE or (name == "CosineAnnealingLR" and floor is not None)):
            raise CannotEdit(f"{name} sets learning rates of its own")
        if name is None and "schedule" in written.rpartition(".")[2].lower():
            raise CannotEdit(f"`{written}` may set learning rates of its own")
