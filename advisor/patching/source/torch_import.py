"""The name ``torch`` for code that an edit writes, in programs that import only parts of it."""

import libcst as cst

from advisor.patching.source.edit import CannotEdit
from advisor.patching.source.program_source import Source, dotted

TORCH = "torch"


def with_torch(source: Source) -> Source:
    """The program with ``import torch`` before the first line that imports a part of torch, if it lacks that.

    Raises:
        CannotEdit: It imports nothing of torch at the top, or the name stands for something else.
    """
    if source.imported.get(TORCH) == TORCH:
        return source
    first = next((line for line in source.module.body if loads_torch(line)), None)
    if first is None:
        raise CannotEdit("torch is not imported at the top of the file")
    if source.uses(TORCH):
        raise CannotEdit("`torch` is not only the name of the package in this file")
    assert isinstance(first, cst.SimpleStatementLine)
    line = source.parsed(f"import {TORCH}").with_changes(leading_lines=first.leading_lines)
    return source.again(
        source.replaced({first: cst.FlattenSentinel([line, first.with_changes(leading_lines=[])])})
    )


def loads_torch(line: cst.CSTNode) -> bool:
    """Whether a statement imports torch or a part of it, under any name that it says."""
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    modules: list[str | None] = []
    for each in line.body:
        if isinstance(each, cst.Import):
            modules += [dotted(alias.name) for alias in each.names]
        elif isinstance(each, cst.ImportFrom) and not isinstance(each.names, cst.ImportStar):
            modules.append(None if each.relative else dotted(each.module))
    return any((name or "").partition(".")[0] == TORCH for name in modules)
