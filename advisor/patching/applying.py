"""A recommendation as a patch of the target: what is edited, and what is left to the user and why.

Nothing is written here, and nothing of the target is run.
"""

import ast
import difflib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.base.errors import EnvironmentProblem, UsageError, clean
from advisor.patching.source.edit import Asked, CannotEdit
from advisor.result.apply import Instruction, Setting, by_hand
from advisor.result.document import Adopted, Proposal, ResultData, Value
from advisor.storage.contract import digest_of_target
from advisor.tuners.knobs import KNOBS

if TYPE_CHECKING:
    from advisor.patching.source.edit import Edit
    from advisor.patching.source.program_source import Source

MAX_BYTES = 2 * 2**20  # of a script that is edited
NEEDS = {
    "accumulation": ("batch_size", "lr_scaling"), "batch_size": ("accumulation", "lr_scaling"),
    "lr_scaling": ("accumulation", "batch_size"), "dynamic": ("execution",), "execution": ("dynamic",),
    "in_order": ("num_workers",), "multiprocessing_context": ("num_workers",),
    "persistent_workers": ("num_workers",), "prefetch_factor": ("num_workers",),
    "sharing_strategy": ("num_workers",),
}  # fmt: skip
"""Changes that are made only together with others: without them they are not what was measured."""
MOST_DEPTH = 200  # of what encloses a part of a program
BESIDE = "edited; these variables belong to it"
NO_EDIT = "advisor has no safe edit for it"
PATCHABLE_NAME = re.compile(r"[^\x00-\x1f\x7f\"\\]+")


@dataclass(frozen=True)
class Patch:
    """What ``apply`` would do.

    Attributes:
        file: The real path of what is edited; ``None`` where there is nothing to edit.
        name: As the result names it.
        before: Its bytes as they are, and ``after`` as they would be.
        diff: Both as a unified diff.
        edited: Changes in the diff.
        instructions: All others.
    """

    name: str
    file: Path | None = None
    before: bytes = b""
    after: bytes = b""
    diff: str = ""
    edited: list[Setting] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """All variables to set, of edited changes and of those that are variables alone."""
        found: dict[str, str] = {}
        for each in self.instructions:
            found |= each.environment
        return found


def make_patch(result: ResultData, folder: Path | None = None) -> Patch:
    """The changes of a recommendation, written into its target as far as that is safe.

    Args:
        result: What ``tune`` found.
        folder: The project; the working directory by default. Nothing outside of it is read.

    Raises:
        UsageError: The target is not here, lies outside, or has changed since.
        EnvironmentProblem: It cannot be read.
    """
    changes = result.recommendation.changes if result.recommendation.verdict == "change" else []
    name = result.target.path
    reason = why_no_file(result)
    if reason is not None or not changes:
        return Patch(name, instructions=[by_hand(change, reason or "") for change in changes])
    file = find_target(name, folder)
    before = read_target(file, name)
    if _digest(file, name) != result.target.digest:
        shown = result.target.digest[: len("sha256:") + 12]
        raise UsageError(
            f"{clean(name)} changed since the study ({shown}): nothing written",
            hint="`advisor tune` it again, or `git apply --3way changes.patch`",
            code="target_changed",
        )
    after, reasons = edited(before, changes, result.target.kind, result.target.args)
    left = [change for change in changes if change.knob in reasons]
    made = [change for change in changes if change.knob not in reasons]
    return Patch(
        name,
        file,
        before,
        after,
        unified(before, after, name) if made else "",
        [Setting(knob=each.knob, **{"from": each.from_}, to=each.to) for each in made],
        [
            *(by_hand(change, reasons[change.knob]) for change in left),
            *(rest for change in made if (rest := _beside_edit(change, made)) is not None),
        ],
    )


def proposed_patch(result: ResultData, proposal: Proposal, folder: Path | None = None) -> Patch:
    """What a proposal would change in the target, for reading; without a diff where no edit is certain.

    Raises:
        UsageError: The target is not here, or has changed since.
        EnvironmentProblem: It cannot be read.
    """
    present, asked = result.baseline.config, {proposal.knob: proposal.to, **proposal.beside}
    if not asked.keys() <= present.keys():  # a present setting is unknown
        return Patch(result.target.path)
    changes = [
        Adopted.model_validate({
            "knob": knob, "from": present[knob], "to": to, "semantics": KNOBS[knob].semantics.value,
        })
        for knob, to in asked.items()
        if to != present[knob]
    ]  # fmt: skip
    recommendation = result.recommendation.model_copy(update={"verdict": "change", "changes": changes})
    return make_patch(result.model_copy(update={"recommendation": recommendation}), folder)


def patched(result: ResultData, before: bytes) -> bytes:
    """What the patch of a result makes of its target's source, by which a written patch is known again."""
    return edited(before, result.recommendation.changes, result.target.kind, result.target.args)[0]


def find_target(name: str, folder: Path | None = None) -> Path:
    """The file that a result names, in the project and not behind a link.

    Raises:
        UsageError: There is none, or it lies outside.
    """
    root = (folder or Path.cwd()).resolve()
    shown = clean(name)
    if not name or "\0" in name:
        raise UsageError(f"no such file: {shown}")
    given = root / name
    try:
        real = given.resolve()
        is_link, is_there = given.is_symlink(), os.path.lexists(given)
    except (OSError, RuntimeError) as error:  # a name that is too long, a loop of links
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "too many symbolic links"
        raise UsageError(f"cannot read {shown}", cause=clean(reason).lower()) from None
    if not real.is_relative_to(root):
        raise UsageError(
            f"{shown} lies outside the project: nothing written",
            hint="run `advisor apply` in the folder where `advisor tune` ran",
            code="outside",
        )
    if is_link:
        raise UsageError(
            f"{shown} is a symbolic link: nothing written",
            hint=f"`advisor tune` the file itself: {clean(str(real.relative_to(root)))}",
            code="link",
        )
    if not is_there:
        raise UsageError(
            f"no such file: {shown}", hint="run `advisor apply` in the folder where `advisor tune` ran"
        )
    return real


def read_target(file: Path, name: str) -> bytes:
    """The bytes of a regular file of moderate size.

    Raises:
        UsageError: It is something else.
        EnvironmentProblem: It cannot be read.
    """
    shown = clean(name)
    try:
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{shown} is not a regular file")
            if status.st_size > MAX_BYTES:
                raise UsageError(
                    f"{shown} has more than {MAX_BYTES // 2**20} MiB, too much for a script to edit"
                )
            return stream.read()
    except OSError as error:
        reason = clean(os.strerror(error.errno or 0)).lower()
        raise EnvironmentProblem(f"cannot read {shown}", cause=reason) from None


def edited(
    before: bytes, changes: Iterable[Adopted], kind: str, args: Iterable[str] = ()
) -> tuple[bytes, dict[str, str]]:
    """A program with changes written into it, and the reasons of those that were not.

    Args:
        before: Its source.
        changes: Of a recommendation.
        kind: ``script`` or ``workload``.
        args: What the program is started with.
    """
    legal = {change.knob: _legal(change) for change in changes}
    asked = tuple(each for each, _ in legal.values() if each is not None)
    without = tuple((knob, reason) for knob, (_, reason) in legal.items() if reason)
    content, refused = _edited(before, asked, without, kind, tuple(args))
    return content, dict(refused)


@lru_cache(maxsize=2)  # a report shows a patch twice
def _edited(
    before: bytes,
    asked: tuple[Asked, ...],
    without: tuple[tuple[str, str], ...],
    kind: str,
    args: tuple[str, ...],
) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    """The program, and by knob the reasons of changes that are not in it; ``without`` are known before."""
    source = _parsed(before, kind, args)
    if isinstance(source, str):
        return before, (*without, *((each.knob, source) for each in asked))
    refused = dict(without)
    while True:
        left = {each.knob: each for each in asked if each.knob not in refused}
        after, failed = _attempt(source, left)
        more = failed | _partners(refused | failed, left)
        if not more:
            break
        refused |= more
    content: bytes = after.module.bytes
    if left and _depth(content) is None:
        return before, (
            *without,
            *((each.knob, "the edited file would not be valid Python") for each in asked),
        )
    return content, tuple(refused.items())


def unified(before: bytes, after: bytes, name: str) -> str:
    """A unified diff of two UTF-8 texts, as ``git apply`` takes it; empty where it could not be one."""
    try:
        texts = [each.decode("utf-8") for each in (before, after)]
    except UnicodeDecodeError:
        return ""
    if PATCHABLE_NAME.fullmatch(name) is None or any("\r" in each.replace("\r\n", "") for each in texts):
        return ""
    old, new = ([*(f"{line}\n" for line in each.split("\n")[:-1]), *_last(each)] for each in texts)
    path = name.removeprefix("./")
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _last(text: str) -> list[str]:
    """What stands behind the last newline."""
    rest = text.rpartition("\n")[2]
    return [rest] if rest else []


def why_no_file(result: ResultData) -> str | None:
    """Why the target has no file to edit, if it has none."""
    target = result.target
    if target.kind == "objects":
        return "the program is a notebook or was given as objects"
    if target.kind not in ("script", "workload"):
        return f"a {target.kind} is no program to edit"
    if not target.digest:
        return "the program was run as a module, and its code was not recorded"
    return None


def _digest(file: Path, name: str) -> str:
    try:
        return digest_of_target(file)
    except OSError as error:
        reason = clean(os.strerror(error.errno or 0)).lower()
        raise EnvironmentProblem(f"cannot read what {clean(name)} imports", cause=reason) from None


def _parsed(content: bytes, kind: str, args: tuple[str, ...]) -> "Source | str":
    """The tree, or why there is none."""
    try:
        import libcst

        from advisor.patching.source.program_source import Source
    except ImportError:
        raise EnvironmentProblem(
            "libcst is not installed, which edits the program", hint="`pip install libcst`"
        ) from None
    depth = _depth(content)
    if depth is None or depth > MOST_DEPTH:  # libcst would take minutes, or the whole process with it
        return "the file cannot be parsed" if depth is None else "the program is nested too deeply"
    try:
        module = libcst.parse_module(content)
        unchanged = module.bytes == content
    except (libcst.ParserSyntaxError, SyntaxError, UnicodeError, LookupError, RecursionError) as error:
        return f"the file cannot be parsed: {clean(str(error).partition(chr(10))[0])}"
    if not unchanged or module.default_newline == "\r":
        return "the file mixes forms that an edit would not keep"
    return Source(module, kind, args)


def legal_value(change: Adopted) -> Value | None:
    """The value that a change sets, if it is one of advisor's own: it comes from a file, and becomes code."""
    knob = KNOBS.get(change.knob)
    try:
        value: Value | None = None if knob is None else knob.parse(str(change.to))
    except ValueError:
        return None
    return value


def _legal(change: Adopted) -> tuple[Asked | None, str]:
    """The change as an edit takes it, or why none does."""
    from advisor.patching.edits import EDITS

    after = legal_value(change)
    if after is None:
        return None, f"`{clean(change.knob, 60)}` has no value `{clean(str(change.to), 60)}`"
    if not any(change.knob in edit.knobs for edit in EDITS.values()):
        return None, "it is set before the program starts" if change.environment else NO_EDIT
    return Asked(change.knob, change.from_, after), ""


def _attempt(source: "Source", asked: Mapping[str, Asked]) -> "tuple[Source, dict[str, str]]":
    """All edits one after the other; what could not be edited, with reasons."""
    failed: dict[str, str] = {}
    for edit in _edits(asked):
        try:
            source = source.again(edit.edit(source, asked))
        except CannotEdit as reason:
            at_fault = edit.knobs if reason.knob is None else (reason.knob,)
            failed |= {knob: str(reason) for knob in at_fault if knob in asked}
        except RecursionError:
            failed |= {knob: "the program is nested too deeply" for knob in edit.knobs if knob in asked}
    return source, failed


def _edits(asked: Mapping[str, Asked]) -> "list[Edit]":
    from advisor.patching.edits import EDITS

    return [edit for edit in EDITS.values() if any(knob in asked for knob in edit.knobs)]


def _partners(refused: Mapping[str, str], asked: Mapping[str, Asked]) -> dict[str, str]:
    """Changes that are made only together with one that was refused."""
    found: dict[str, str] = {}
    for knob in (each for each in asked if each not in refused):
        missing = [each for each in NEEDS.get(knob, ()) if each in refused]
        if missing:
            found[knob] = f"it goes together with {missing[0]}, which is not edited: {refused[missing[0]]}"
    return found


def _depth(content: bytes) -> int | None:
    """How deeply a program is nested; None where it is no valid Python."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    deepest = 0
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest


def _beside_edit(change: Adopted, made: Iterable[Adopted]) -> Instruction | None:
    """What a change wants beside its edit and those of all others, if anything."""
    asked = {each.knob: Asked(each.knob, each.from_, each.to) for each in made}
    (edit,) = _edits({change.knob: asked[change.knob]})
    code = edit.unwritten(asked)
    if edit.left and code != "":
        told = by_hand(change, edit.left)
        return told if code is None else told.model_copy(update={"snippet": code})
    if change.environment and not edit.replaces_environment:
        return by_hand(change, BESIDE).model_copy(update={"snippet": ""})
    return None
