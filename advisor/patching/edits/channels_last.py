"""The memory layout of an image model and of the one input it is trained with."""

from collections.abc import Mapping

import libcst as cst

from advisor.patching.source.call_arguments import expression
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_sites import (
    before_optimizer,
    is_whole_batch,
    refuse_ranks,
    refuse_reassigned,
    trained_model,
    training_call,
)
from advisor.patching.source.program_source import Site, Source, method
from advisor.patching.source.torch_import import with_torch

LAYOUT = "memory_format=torch.channels_last"
VOLUMES = ("Conv3d", "ConvTranspose3d", "conv3d", "conv_transpose3d")
MOVES = ("to", "cuda")
RESHAPED = ("flatten", "reshape", "squeeze", "view")
IMAGES = 4  # dimensions


class ChannelsLast(Edit):
    """Converts the model in place before its optimizer is made, and its input where the training calls it.

    Converting in place keeps every name and every parameter what it is.
    """

    knobs = ("channels_last",)

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Refused where the input may be anything but one tensor of images."""
        if asked["channels_last"].after != "on":
            raise CannotEdit("the program's own layout would have to be taken out")
        if source.mentions("channels_last", "channels_last_3d"):
            raise CannotEdit("the program sets a memory format itself")
        if source.mentions(*VOLUMES):
            raise CannotEdit("its convolutions of volumes need another format")
        source = with_torch(source)
        model = trained_model(source)
        refuse_ranks(source)
        refuse_reassigned(source, model)
        call = training_call(source, model)
        given = _input(source, call)
        converted = expression(f"value.to({LAYOUT})")
        assert isinstance(converted, cst.Call)
        converted = converted.with_deep_changes(converted.func, value=given.value)
        return source.replaced({
            **before_optimizer(source, model, f"{model.name}.to({LAYOUT})"),
            given: given.with_changes(value=converted),
        })  # fmt: skip


def _input(source: Source, call: Site[cst.Call]) -> cst.Arg:
    """The one argument of the model, if it is a tensor: a part of the batch, moved to a device perhaps."""
    given = call.node.args
    if len(given) != 1 or given[0].star or given[0].keyword is not None:
        raise CannotEdit("the model takes more than one input, and which of them are images is not clear")
    value = given[0].value
    moved = _before_moves(value)
    known = isinstance(moved, cst.Subscript) or (
        isinstance(moved, cst.Name) and not (moved is value and is_whole_batch(source, call, moved.value))
    )
    if not known or (isinstance(moved, cst.Name) and _is_reshaped(source, call, moved.value)):
        raise CannotEdit(f"whether `{source.text(value)}` is one tensor of images is not clear")
    return given[0]


def _before_moves(value: cst.BaseExpression) -> cst.BaseExpression:
    """What a tensor was before it was moved to a device."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and method(value) in MOVES:
        value = value.func.value
    return value


def _is_reshaped(source: Source, call: Site[cst.Call], name: str) -> bool:
    """Whether a tensor gets another shape than that of images on its way, as for a model that takes rows."""
    made = [site.node.value for site in source.assignments(name) if source.scope(site) is source.scope(call)]
    shaped = [_before_moves(value) for value in made if value is not None]
    return any(
        isinstance(each, cst.Call) and method(each) in RESHAPED and len(each.args) != IMAGES
        for each in shaped
    )
