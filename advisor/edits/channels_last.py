"""The memory layout of an image model and of the one input it is trained with."""

from collections.abc import Mapping

import libcst as cst

from advisor.call_arguments import expression
from advisor.edit import Asked, CannotEdit, Edit
from advisor.program_sites import (
    before_optimizer,
    is_whole_batch,
    refuse_ranks,
    refuse_reassigned,
    trained_model,
    training_call,
)
from advisor.program_source import Site, Source, method

LAYOUT = "memory_format=torch.channels_last"
VOLUMES = ("Conv3d", "ConvTranspose3d", "conv3d", "conv_transpose3d")
MOVES = ("to", "cuda")


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
        if source.imported.get("torch") != "torch":
            raise CannotEdit("the file does not `import torch`")
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
    moved = value
    while isinstance(moved, cst.Call) and isinstance(moved.func, cst.Attribute) and method(moved) in MOVES:
        moved = moved.func.value
    known = isinstance(moved, cst.Subscript) or (
        isinstance(moved, cst.Name) and not (moved is value and is_whole_batch(source, call, moved.value))
    )
    if not known:
        raise CannotEdit(f"whether `{source.text(value)}` is one tensor of images is not clear")
    return given[0]
