"""Where the value of an argument is written: at the call, in a constant, or as the default of an option."""

from dataclasses import dataclass
from typing import Any

import libcst as cst

from advisor.patching.source.call_arguments import argument, has_stars, literal, with_argument
from advisor.patching.source.edit import CannotEdit
from advisor.patching.source.program_source import Site, Source, dotted, method, value_of
from advisor.result.document import Value


@dataclass(frozen=True)
class Place:
    """A node that holds the value of an argument, and that value."""

    old: cst.CSTNode
    value: cst.BaseExpression

    def changed(self, new: cst.BaseExpression) -> cst.CSTNode:
        """The node with another value."""
        if isinstance(self.old, cst.Call):
            return with_argument(self.old, "default", new)
        return self.old.with_changes(value=new)


def place_of(source: Source, site: Site[cst.Call], written: cst.Arg, name: str, after: Value) -> Place | None:
    """Where the value of an argument is written; None where that is the call itself.

    Args:
        source: The program.
        site: The call.
        written: Its argument.
        name: Of the argument.
        after: What it is to become, for the reason of a refusal.

    Raises:
        CannotEdit: It is computed, or used elsewhere too.
    """
    value = written.value
    if literal(value) is not ...:
        return None
    if isinstance(value, cst.Name):
        return _constant(source, value, name, after)
    if isinstance(value, cst.Attribute):
        return _option(source, site, value, name, after)
    raise CannotEdit(f"{name} is computed as `{source.text(value)}`")


def _constant(source: Source, written: cst.Name, name: str, after: Value) -> Place:
    """The one assignment of a literal to a name that is read nowhere else."""
    assigned = source.assignments(written.value)
    if len(assigned) != 1 or literal(value_of(assigned[0].node)) is ...:
        raise CannotEdit(f"{name} is taken from `{written.value}`, which is no constant")
    if len(source.uses(written.value)) != 2:  # there and here
        raise CannotEdit(
            f"{name} is taken from `{written.value}`, which is used elsewhere too: set it to {after} there"
        )
    node = assigned[0].node
    if isinstance(node, cst.Assign) and len(node.targets) != 1:
        raise CannotEdit(f"{name} is taken from `{written.value}`, which is assigned together with others")
    return Place(node, value_of(node))


def _option(source: Source, site: Site[cst.Call], written: cst.Attribute, name: str, after: Value) -> Place:
    """The default of an option of ``argparse`` that is read nowhere else."""
    where = source.text(written)
    options = _parsed_options(source, written, site)
    found = [each for each in options if _destination(each.node) == written.attr.value]
    if len(found) != 1:
        raise CannotEdit(f"{name} is taken from `{where}`: set it to {after} where that comes from")
    call = found[0].node
    flags = _flags(call)
    given = [word for word in source.args if any(_means(word, flag) for flag in flags)]
    longest = max(flags, key=len, default="")
    if given:
        raise CannotEdit(f"{name} is given on the command line: write `{longest} {after}` there")
    if len([each for each in source.sites(cst.Attribute) if dotted(each.node) == dotted(written)]) != 1:
        raise CannotEdit(
            f"{name} is taken from `{where}`, which is used elsewhere too: "
            f"start the program with `{longest} {after}`"
        )
    default = argument(call, "default")
    if default is None or has_stars(call) or literal(default.value) is ...:
        raise CannotEdit(f"{name} is taken from `{where}`: start the program with `{longest} {after}`")
    return Place(call, default.value)


def _parsed_options(source: Source, written: cst.Attribute, site: Site[Any]) -> list[Site[cst.Call]]:
    """Options of the program, if the value comes from what ``parse_args`` returned."""
    holder = source.meaning(written.value, site)
    made = source.assignments(holder) if holder is not None else []
    parses = [
        each for each in made
        if isinstance(value := value_of(each.node), cst.Call) and method(value) == "parse_args"
    ]  # fmt: skip
    return source.methods("add_argument") if len(made) == len(parses) == 1 else []


def _flags(option: cst.Call) -> list[str]:
    return [
        value for each in option.args
        if each.keyword is None and isinstance(value := literal(each.value), str)
    ]  # fmt: skip


def _destination(option: cst.Call) -> str | None:
    """The attribute that an option is read from."""
    named = argument(option, "dest")
    if named is not None:
        value = literal(named.value)
        return value if isinstance(value, str) else None
    flags = _flags(option)
    long = [flag for flag in flags if flag.startswith("--")]
    chosen = (long or flags or [""])[0]
    return chosen.lstrip("-").replace("-", "_")


def _means(word: str, flag: str) -> bool:
    """Whether a word of the command line gives that option, abbreviated perhaps."""
    written = word.partition("=")[0]
    if flag.startswith("--"):
        return written.startswith("--") and len(written) > 2 and flag.startswith(written)
    return flag.startswith("-") and word.startswith(flag)
