"""Edits that set one thing of the whole process, once torch is imported."""

from collections.abc import Mapping
from typing import ClassVar

import libcst as cst

from advisor.patching.source.call_arguments import expression, literal
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_source import Source, dotted
from advisor.patching.source.torch_import import TORCH, with_torch
from advisor.result.document import Value


class ProcessSetting(Edit):
    """A call or a flag of torch. Where the program has it, its value is changed, else a line is added.

    Class attributes:
        function: What is called with the value as its one argument; empty for a flag.
        flag: What the value is assigned to; empty for a call.
        excluded: Names that must not occur: other ways to the same setting.
    """

    function: ClassVar[str] = ""
    flag: ClassVar[str] = ""
    excluded: ClassVar[tuple[str, ...]] = ()

    def written(self, value: Value) -> str:
        """The value as Python writes it."""
        return {"on": "True", "off": "False"}.get(str(value), str(value))

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Change the one place that sets it, or set it behind the imports."""
        other = next((name for name in self.excluded if source.mentions(name)), None)
        if other is not None:
            raise CannotEdit(f"the program uses `{other}`, a setting that excludes it")
        (knob,) = self.knobs
        new = expression(self.written(asked[knob].after))
        present = self._present(source)
        if len(present) > 1:
            raise CannotEdit(f"`{self.function or self.flag}` is set at {len(present)} places")
        if present:
            old = present[0]
            if literal(old) is ...:
                raise CannotEdit(f"`{self.function or self.flag}` is set to `{source.text(old)}`")
            return source.replaced({old: new})
        value = source.module.code_for_node(new)
        return behind_imports(
            source, f"{self.function}({value})" if self.function else f"{self.flag} = {value}"
        )

    def _present(self, source: Source) -> list[cst.BaseExpression]:
        """Values that the program sets it to."""
        if self.function:
            calls = source.calls(self.function)
            if any(len(site.node.args) != 1 or site.node.args[0].star for site in calls):
                raise CannotEdit(f"`{self.function}` is called in another form")
            return [site.node.args[0].value for site in calls]
        return [
            site.node.value for site in source.sites(cst.Assign)
            if any(source.path(target.target) == self.flag for target in site.node.targets)
        ]  # fmt: skip


def behind_imports(source: Source, code: str) -> cst.Module:
    """The program with a statement behind its first imports, as soon as torch is there.

    Raises:
        CannotEdit: torch is not imported at the top of the file.
    """
    source = with_torch(source)
    body = source.module.body
    first = next((at for at, line in enumerate(body) if _imports_torch(line)), None)
    if first is None:
        raise CannotEdit("torch is not imported at the top of the file")
    last = first
    while last + 1 < len(body) and _imports(body[last + 1]):
        last += 1
    line = source.parsed(code).with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    while last + 1 < len(body) and _sets_torch(source, body[last + 1]):
        last += 1
        line = line.with_changes(leading_lines=[])
    anchor = body[last]
    return source.replaced({anchor: cst.FlattenSentinel([anchor, line])})


def _imports(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and all(
        isinstance(each, cst.Import | cst.ImportFrom) for each in line.body
    )


def _sets_torch(source: Source, line: cst.CSTNode) -> bool:
    """Whether a statement is a setting of torch like the one to be added."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return False
    only = line.body[0]
    called = only.value.func if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) else None
    assigned = only.targets[0].target if isinstance(only, cst.Assign) else None
    path = source.path(called or assigned or line) or ""
    return path.startswith(("torch.set_", "torch.backends."))


def _imports_torch(line: cst.CSTNode) -> bool:
    """Whether a statement binds the name ``torch``."""
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    return any(
        alias.asname is None and (dotted(alias.name) or "").partition(".")[0] == TORCH
        for each in line.body if isinstance(each, cst.Import)
        for alias in each.names
    )  # fmt: skip
