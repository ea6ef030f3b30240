"""A program's source as a tree that keeps every byte: what its names stand for, and where things stand."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import libcst as cst

from advisor.patching.source.edit import CannotEdit
from advisor.patching.source.source_tree import children, rebuilt

N = TypeVar("N", bound=cst.CSTNode, covariant=True)
K = TypeVar("K", bound=cst.CSTNode)

OF_IMPORTS = (cst.Attribute, cst.AsName, cst.ImportAlias)
DEFERRED = (cst.Lambda, cst.BaseComp, cst.FunctionDef, cst.ClassDef)
OWN_NAMES = ("self", "cls")
MOST_CALLERS = 3  # functions that hand an argument on to each other
SHOWN = 60  # characters of code in a sentence


@dataclass(frozen=True)
class Site(Generic[N]):
    """A node with what encloses it, outermost first; ``order`` is its number in the tree."""

    node: N
    above: tuple[cst.CSTNode, ...]
    order: int

    def inside(self, kind: type[K]) -> K | None:
        """The nearest enclosing node of a kind."""
        return next((node for node in reversed(self.above) if isinstance(node, kind)), None)

    def is_under(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` encloses it, or is it."""
        return self.node is node or any(each is node for each in self.above)


@dataclass(frozen=True)
class Statement:
    """A simple statement on lines of its own: the block that holds it, and its index there."""

    line: cst.SimpleStatementLine
    block: cst.IndentedBlock | cst.Module
    at: int

    @property
    def only(self) -> cst.BaseSmallStatement:
        """Its one small statement.

        Raises:
            CannotEdit: There are several, parted by semicolons.
        """
        if len(self.line.body) != 1:
            raise CannotEdit("several statements stand on its line")
        return self.line.body[0]


class Source:
    """A program that was read but not run.

    Args:
        module: The tree.
        kind: ``script`` or ``workload``.
        args: What the program is started with.
    """

    def __init__(self, module: cst.Module, kind: str = "script", args: Sequence[str] = ()) -> None:
        self.module = module
        self.kind = kind
        self.args = tuple(args)

    @cached_property
    def everything(self) -> list[Site[Any]]:
        """All nodes but white space and punctuation; what a node encloses follows it directly."""
        found: list[Site[Any]] = []
        waiting: list[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]] = [(self.module, ())]
        while waiting:
            node, above = waiting.pop()
            found.append(Site(node, above, len(found)))
            inner = (*above, node)
            waiting += [(child, inner) for child in reversed(list(children(node)))]
        return found

    def sites(self, kind: type[K], under: cst.CSTNode | None = None) -> list[Site[K]]:
        """All nodes of a kind, or those that ``under`` encloses."""
        lists = [found for each, found in self._by_class.items() if issubclass(each, kind)]
        every = (
            lists[0] if len(lists) == 1 else sorted((site for found in lists for site in found), key=_order)
        )
        if under is None:
            return list(every)
        first, last = self._reach(under)
        return every[bisect_left(every, first, key=_order) : bisect_left(every, last, key=_order)]

    def text(self, node: cst.CSTNode) -> str:
        """Its code in one short line, for a sentence."""
        code = " ".join(self.module.code_for_node(node).split())
        return code if len(code) <= SHOWN else code[: SHOWN - 3] + "..."

    @cached_property
    def imported(self) -> dict[str, str]:
        """What each name stands for that is imported and nothing else: ``nn`` -> ``torch.nn``."""
        found: dict[str, set[str]] = {}
        for plain in self.sites(cst.Import):
            for alias in plain.node.names:
                path = dotted(alias.name) or ""
                local = _local(alias)
                found.setdefault(local or path.partition(".")[0], set()).add(
                    path if local else path.partition(".")[0]
                )
        for site in self.sites(cst.ImportFrom):
            names = site.node.names
            package = (
                dotted(site.node.module) if site.node.module is not None and not site.node.relative else None
            )
            for alias in names if isinstance(names, Sequence) else ():
                name = dotted(alias.name) or ""
                found.setdefault(_local(alias) or name, set()).add(f"{package}.{name}" if package else "")
        return {
            name: paths.copy().pop()
            for name, paths in found.items()
            if len(paths) == 1 and paths != {""} and name not in self._bound
        }

    def imports(self, *packages: str) -> bool:
        """Whether anything of one of these packages is imported."""
        modules = [dotted(alias.name) for site in self.sites(cst.Import) for alias in site.node.names]
        modules += [
            dotted(site.node.module) for site in self.sites(cst.ImportFrom) if site.node.module is not None
        ]
        return any((module or "").partition(".")[0] in packages for module in modules)

    def mentions(self, *words: str) -> bool:
        """Whether a name, an attribute or a keyword of the program is one of these."""
        return any(site.node.value in words for site in self.sites(cst.Name))

    def path(self, node: cst.CSTNode) -> str | None:
        """What a dotted name stands for: ``F.cross_entropy`` -> ``torch.nn.functional.cross_entropy``."""
        written = dotted(node)
        if written is None:
            return None
        first, dot, rest = written.partition(".")
        return f"{self.imported[first]}{dot}{rest}" if first in self.imported else None

    def calls(self, *paths: str) -> list[Site[cst.Call]]:
        """Calls of what is imported from these paths."""
        return [site for site in self.sites(cst.Call) if self.path(site.node.func) in paths]

    def methods(self, *names: str, under: cst.CSTNode | None = None) -> list[Site[cst.Call]]:
        """Calls of attributes with these names, whatever they belong to."""
        return [site for site in self.sites(cst.Call, under) if method(site.node) in names]

    def scope(self, site: Site[Any]) -> cst.CSTNode:
        """The function that runs it, or the module."""
        return site.inside(cst.FunctionDef) or self.module

    def statement(self, site: Site[Any]) -> Statement:
        """The simple statement that a node is part of.

        Raises:
            CannotEdit: It belongs to the head of a block, runs later, or shares its line with one.
        """
        lines = [at for at, node in enumerate(site.above) if isinstance(node, cst.SimpleStatementLine)]
        if not lines:
            raise CannotEdit(f"`{self.text(site.node)}` is no statement of its own")
        line, block = site.above[lines[-1]], site.above[lines[-1] - 1]
        later = [node for node in site.above[lines[-1] :] if isinstance(node, DEFERRED)]
        assert isinstance(line, cst.SimpleStatementLine)
        if later or not isinstance(block, cst.IndentedBlock | cst.Module):
            raise CannotEdit(f"`{self.text(site.node)}` is no statement of its own")
        return Statement(line, block, next(at for at, each in enumerate(block.body) if each is line))

    def assignments(self, written: str) -> list[Site[cst.Assign | cst.AnnAssign]]:
        """Where a name or attribute, as written, alone is given a value."""
        plain = [
            site for site in self.sites(cst.Assign)
            if any(dotted(each.target) == written for each in site.node.targets)
        ]  # fmt: skip
        annotated = [
            site for site in self.sites(cst.AnnAssign)
            if site.node.value is not None and dotted(site.node.target) == written
        ]  # fmt: skip
        return sorted([*plain, *annotated], key=_order)

    def reads(self, written: str) -> list[Site[Any]]:
        """Where a name or attribute, as written, is used and not assigned."""
        kind = cst.Attribute if "." in written else cst.Name
        return [site for site in self.sites(kind) if dotted(site.node) == written and _is_read(site)]

    def uses(self, name: str) -> list[Site[cst.Name]]:
        """Where a plain name is read or bound."""
        return [site for site in self.sites(cst.Name) if site.node.value == name and not _is_label(site)]

    def meaning(self, node: cst.CSTNode, site: Site[Any], callers: int = MOST_CALLERS) -> str | None:
        """A dotted name as it is written where it was made: a parameter stands for what is handed in.

        Args:
            node: The name.
            site: Where it stands.
            callers: How many functions up this may go.

        Returns:
            None where the function is handed different things, or nothing that is known.
        """
        written = dotted(node)
        function = site.inside(cst.FunctionDef)
        first, dot, rest = (written or "").partition(".")
        if written is None or function is None or first in OWN_NAMES or first not in parameters(function):
            return written
        given = self._handed_in(function, first)
        if not given or callers == 0:
            return None
        meanings = {None if each is None else self.meaning(each[0], each[1], callers - 1) for each in given}
        only = meanings.pop()
        return None if meanings or only is None else f"{only}{dot}{rest}"

    def replaced(self, changes: Mapping[cst.CSTNode, Any]) -> cst.Module:
        """The tree with nodes replaced, each by a node or by a ``FlattenSentinel`` of statements."""
        new = {id(old): each for old, each in changes.items()}
        touched = {id(above) for site in self.everything if id(site.node) in new for above in site.above}
        changed = rebuilt(self.module, new, touched)
        assert isinstance(changed, cst.Module)
        return changed

    def again(self, module: cst.Module) -> "Source":
        """Another tree of the same program."""
        return Source(module, self.kind, self.args)

    def parsed(self, code: str) -> cst.SimpleStatementLine:
        """A statement that fits into the tree."""
        statement = cst.parse_statement(code, config=self.module.config_for_parsing)
        assert isinstance(statement, cst.SimpleStatementLine)
        return statement

    @cached_property
    def _by_class(self) -> dict[type, list[Site[Any]]]:
        found: dict[type, list[Site[Any]]] = {}
        for site in self.everything:
            found.setdefault(type(site.node), []).append(site)
        return found

    @cached_property
    def _reaches(self) -> dict[int, tuple[int, int]]:
        """Of every node its own number and the one behind all that it encloses."""
        found: dict[int, tuple[int, int]] = {}
        open_nodes: list[Site[Any]] = []
        for site in self.everything:
            while len(open_nodes) > len(site.above):
                closed = open_nodes.pop()
                found[id(closed.node)] = (closed.order, site.order)
            open_nodes.append(site)
        found |= {id(site.node): (site.order, len(self.everything)) for site in open_nodes}
        return found

    def _reach(self, node: cst.CSTNode) -> tuple[int, int]:
        return self._reaches.get(id(node), (0, 0))

    @cached_property
    def _bound(self) -> set[str]:
        """Names that something else than an import binds."""
        found: set[str] = set()
        for site in self.everything:
            node = site.node
            if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param):
                found.add(node.name.value)
            elif isinstance(node, cst.Name) and not _is_read(site) and not _is_label(site):
                found.add(node.value)
        return found

    def _handed_in(
        self, function: cst.FunctionDef, parameter: str
    ) -> list[tuple[cst.BaseExpression, Site[cst.Call]] | None]:
        """What each call of a plain function gives for a parameter; None where that cannot be told."""
        given: list[tuple[cst.BaseExpression, Site[cst.Call]] | None] = []
        if not any(site.node is function and _is_plain(site) for site in self.sites(cst.FunctionDef)):
            return given
        at = parameters(function).index(parameter)
        for site in self.sites(cst.Call):
            if dotted(site.node.func) != function.name.value:
                continue
            arguments = site.node.args
            named = [
                each for each in arguments if each.keyword is not None and each.keyword.value == parameter
            ]
            plain = [each for each in arguments if each.keyword is None]
            if any(each.star for each in arguments):
                given.append(None)
            elif named or at < len(plain):
                given.append(((named or plain[at:])[0].value, site))
            else:
                given.append(None)
        return given


def _order(site: Site[Any]) -> int:
    return site.order


def dotted(node: cst.CSTNode | None) -> str | None:
    """``a.b.c`` for a name or a chain of attributes; None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted(node.value)
        return None if before is None else f"{before}.{node.attr.value}"
    return None


def method(call: cst.Call) -> str | None:
    """The name of the attribute that is called."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def parameters(function: cst.FunctionDef) -> list[str]:
    """Names of a function's parameters; those by position come first."""
    every = function.params
    return [each.name.value for each in (*every.posonly_params, *every.params, *every.kwonly_params)]


def assigned_names(target: cst.CSTNode) -> list[str] | None:
    """Names that a target binds; None where it is more than names and tuples of them."""
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Tuple | cst.List):
        found: list[str] = []
        for element in target.elements:
            inner = assigned_names(element.value)
            if inner is None or isinstance(element, cst.StarredElement):
                return None
            found += inner
        return found
    return None


def value_of(statement: cst.Assign | cst.AnnAssign) -> cst.BaseExpression:
    """What is assigned."""
    assert statement.value is not None  # an annotation alone assigns nothing
    return statement.value


def _local(alias: cst.ImportAlias) -> str | None:
    return dotted(alias.asname.name) if alias.asname is not None else None


def _is_plain(site: Site[cst.FunctionDef]) -> bool:
    """Whether a function is no method."""
    holders = [node for node in site.above if isinstance(node, cst.FunctionDef | cst.ClassDef)]
    return not holders or not isinstance(holders[-1], cst.ClassDef)


def _is_label(site: Site[Any]) -> bool:
    """Whether a name is an attribute, a keyword or part of an import, and so binds and reads nothing."""
    above = site.above[-1] if site.above else None
    if isinstance(above, cst.Attribute) and above.attr is site.node:
        return True
    if isinstance(above, cst.Arg):
        return above.keyword is site.node
    for node in reversed(site.above):
        if not isinstance(node, OF_IMPORTS):
            return isinstance(node, cst.Import | cst.ImportFrom)
    return False


def _is_read(site: Site[Any]) -> bool:
    if _is_label(site):
        return False
    below: cst.CSTNode = site.node
    for node in reversed(site.above):
        if isinstance(node, cst.Tuple | cst.List | cst.Element | cst.StarredElement):
            below = node
            continue
        if isinstance(node, cst.AssignTarget | cst.AsName | cst.Global | cst.Nonlocal | cst.NameItem):
            return False
        if isinstance(node, cst.AnnAssign | cst.For | cst.CompFor | cst.NamedExpr | cst.AugAssign):
            return node.target is not below
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param):
            return node.name is not below
        return True
    return True
