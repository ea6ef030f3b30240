"""A user's Python file, read and understood without running it."""

import ast
import errno
import os
import stat
import tokenize
import warnings
from collections.abc import Iterator

from advisor.base.errors import EnvironmentProblem, TargetError, UsageError, clean
from advisor.cli.values import did_you_mean

MAX_BYTES = 16 * 2**20
TRAINING = ("backward", "step", "fit", "train", "minimize")
DEFINITIONS = (
    ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign,
    ast.AnnAssign, ast.Pass,
)  # fmt: skip


def read_source(name: str) -> ast.Module:
    """The syntax tree of a Python file.

    Raises:
        UsageError: No such file, or no Python source.
        EnvironmentProblem: It cannot be read.
        TargetError: A syntax error.
    """
    shown = clean(name)
    content = _bytes(name, shown)
    if not content.strip():
        raise UsageError(f"{shown} is empty")
    return _parse(_decoded(content, shown), shown)


def defines(tree: ast.Module, name: str) -> bool:
    """Whether a file gives a value to ``name`` at its top level."""
    return any(name in _names(statement) for statement in _top_level(tree.body))


def model_classes(tree: ast.Module) -> list[ast.ClassDef]:
    """Classes of the file's top level that derive from something named ``...Module``, directly or not."""
    found: dict[str, ast.ClassDef] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            bases = [_last_name(base) for base in statement.bases]
            if any(base.endswith("Module") or base in found for base in bases):
                found[statement.name] = statement
    return list(found.values())


def line_of_call(tree: ast.Module, name: str) -> int | None:
    """The first line that calls ``name``, as ``module.function`` or imported by its last part."""
    module, _, last = name.rpartition(".")
    imported = any(
        isinstance(node, ast.ImportFrom) and node.module == module and last in _names(node)
        for node in ast.walk(tree)
    )
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) == name or (imported and ast.unparse(node.func) == last))
    ]
    return min(lines, default=None)


def only_defines(tree: ast.Module) -> bool:
    """Whether running the file would do nothing but define names; nothing in it trains."""
    trains = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TRAINING
        for node in ast.walk(tree)
    )
    return not trains and not any(_acts(statement) for statement in tree.body)


def acts_when_imported(tree: ast.Module) -> bool:
    """Whether importing the file does more than define names."""
    return any(_acts(statement) and not _is_main_guard(statement) for statement in tree.body)


def _bytes(name: str, shown: str) -> bytes:
    if "\0" in name:
        raise UsageError(f"no such file: {shown}", hint="a file name holds no NUL")
    try:
        status = os.stat(name)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{shown} is a directory", hint="give the script, or `-m package.module`")
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{shown} is not a regular file")
        if status.st_size > MAX_BYTES:
            raise UsageError(f"{shown} has {status.st_size // 2**20} MiB; a script has at most 16")
        with open(name, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise _unreadable(name, shown, error) from None


def _unreadable(name: str, shown: str, error: OSError) -> UsageError | EnvironmentProblem:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UsageError(f"no such file: {shown}", hint=_nearest_file(name))
    if error.errno == errno.ELOOP:
        return UsageError(f"too many symbolic links: {shown}")
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(f"no such file: {shown}", cause="the name is too long")
    return EnvironmentProblem(f"cannot read {shown}: {os.strerror(error.errno or 0).lower()}")


def _nearest_file(name: str) -> str | None:
    folder, last = os.path.split(name)
    try:
        files = [entry for entry in os.listdir(folder or ".") if entry.endswith(".py")]
    except OSError:
        return None
    hint = did_you_mean(last, files)
    return clean(hint.replace("did you mean ", f"did you mean {os.path.join(folder, '')}")) if hint else None


def _decoded(content: bytes, shown: str) -> str:
    lines = iter(content.splitlines(keepends=True))
    nul = content.find(b"\0")
    try:
        coding, _ = tokenize.detect_encoding(lambda: next(lines, b""))
        decoded = content.decode(coding)
    except UnicodeDecodeError as error:
        raise _not_text(shown, f"byte 0x{content[error.start]:02x} at {error.start}") from None
    except SyntaxError:
        at = next((i for i, byte in enumerate(content) if byte > 0x7F), None)
        if at is None:
            raise UsageError(f"{shown} declares an unknown coding", hint="save it as UTF-8") from None
        raise _not_text(shown, f"byte 0x{content[at]:02x} at {at}") from None
    if nul >= 0:
        raise _not_text(shown, f"byte 0x00 at {nul}")
    return decoded


def _not_text(shown: str, place: str) -> UsageError:
    return UsageError(f"{shown} is not UTF-8 ({place})", hint="save it as UTF-8, or declare the coding")


def _parse(text: str, shown: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise TargetError(
            f"{shown}:{error.lineno}: {clean(error.msg)}", where=f"{shown}:{error.lineno}:{error.offset}",
            cause=clean(line) or None, code="syntax",
        ) from None  # fmt: skip
    except (RecursionError, MemoryError):
        raise TargetError(f"{shown} is nested too deeply to be read", code="syntax") from None


def _top_level(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of the top level, those inside ``if``, ``try`` and ``with`` included."""
    for statement in statements:
        yield statement
        for block in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from _top_level(getattr(statement, block, []))


def _names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign):
        return {
            node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)
        }
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return {statement.target.id} if isinstance(statement.target, ast.Name) else set()
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    return set()


def _last_name(base: ast.expr) -> str:
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


def _acts(statement: ast.stmt) -> bool:
    """Whether a statement of the top level does anything but define names."""
    if isinstance(statement, DEFINITIONS):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.If) and _last_name(statement.test) == "TYPE_CHECKING":
        return False
    if isinstance(statement, ast.Try):
        return any(_acts(inner) for inner in (*statement.body, *statement.orelse, *statement.finalbody))
    return True


def _is_main_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return False
    return "__name__" in {_last_name(side) for side in (statement.test.left, *statement.test.comparators)}
