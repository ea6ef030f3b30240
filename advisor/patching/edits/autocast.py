"""Forward and loss of the training under autocast in bfloat16."""

import re
from collections.abc import Mapping

import libcst as cst

from advisor.patching.source.call_arguments import expression
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.loss_statements import loss_statements
from advisor.patching.source.program_sites import FRAMEWORKS, trained_model, training_call
from advisor.patching.source.program_source import Site, Source
from advisor.patching.source.torch_import import with_torch

DEVICES = re.compile(r"cuda|device|accelerator|mps|xpu|hpu", re.IGNORECASE)


class Autocast(Edit):
    """Puts forward and loss into ``with torch.autocast(...):``; the loss itself is computed in float32.

    That is what was measured: only the forward has fewer bits, and its output comes back in float32. torch
    computes the losses that are known here in float32 under autocast; before other arithmetic the output is
    converted with ``.float()``.
    """

    knobs = ("amp",)

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Refused for float16, whose loss has to be scaled in several places."""
        if asked["amp"].after != "bf16":
            raise CannotEdit("float16 needs a scaled loss, which is more than one edit")
        if source.mentions("autocast", "GradScaler"):
            raise CannotEdit("the program uses autocast itself")
        if source.imports(*FRAMEWORKS):
            raise CannotEdit("a framework sets the precision")
        source = with_torch(source)
        call = training_call(source, trained_model(source))
        found = loss_statements(source, call)
        first = found.lines[0]
        mode = expression(f"torch.autocast({_device(source, call)}, dtype=torch.bfloat16)")
        inside = [first.with_changes(leading_lines=[]), *found.lines[1:]]
        if found.output is not None:
            inside = [_in_float32(line, found.output) for line in inside]
        block = cst.With([cst.WithItem(mode)], cst.IndentedBlock(inside), leading_lines=first.leading_lines)
        changes: dict[cst.CSTNode, object] = {line: cst.RemovalSentinel.REMOVE for line in found.lines}
        return source.replaced(changes | {first: block})


def _in_float32(line: cst.SimpleStatementLine, output: cst.BaseExpression) -> cst.SimpleStatementLine:
    changed = line.deep_replace(output, cst.Call(cst.Attribute(output, cst.Name("float"))))
    assert isinstance(changed, cst.SimpleStatementLine)
    return changed


def _device(source: Source, call: Site[cst.Call]) -> str:
    """The kind of device as an expression; a program that names none runs on the CPU."""
    if DEVICES.search(source.module.code) is None:
        return '"cpu"'
    return f"next({source.module.code_for_node(call.node.func).strip()}.parameters()).device.type"
