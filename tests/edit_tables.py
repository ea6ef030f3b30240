"""What tests of edits share: changes by name, a program edited, and tables of programs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

import libcst

from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_source import Source
from advisor.result.document import Value


@dataclass(frozen=True)
class Case:
    """A program before and after, or the words of the refusal in place of ``after``."""

    before: str
    after: str | None = None
    refusal: str = ""
    asked: Mapping[str, tuple[Value, Value]] = field(default_factory=dict)
    kind: str = "script"
    args: tuple[str, ...] = ()


def asked(**changes: tuple[Value, Value]) -> dict[str, Asked]:
    """Changes by knob, each from its present value to another one."""
    return {knob: Asked(knob, before, after) for knob, (before, after) in changes.items()}


def edited(
    edit: Edit, program: str, changes: dict[str, Asked], kind: str = "script", args: tuple[str, ...] = ()
) -> str:
    """The program after one edit."""
    return edit.edit(Source(libcst.parse_module(program), kind, args), changes).code


def check(edit: Edit, case: Case, **changes: tuple[Value, Value]) -> None:
    """Edit the program of a case and compare."""
    wanted = asked(**(case.asked or changes))
    before = dedent(case.before).lstrip("\n")
    try:
        found = edited(edit, before, wanted, case.kind, case.args)
    except CannotEdit as reason:
        assert case.after is None, reason
        assert case.refusal in str(reason)
        return
    assert case.after is not None, found
    compile(found, "edited", "exec")
    assert found == dedent(case.after).lstrip("\n")
