"""The file ``changes.patch``: what can be edited as a diff, everything else as instructions in comments.

``git apply`` takes the diff and skips the comments. Where nothing can be edited every line is a comment, so
that ``git apply`` finds nothing to do and a shell runs nothing.
"""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from advisor.base.errors import AdvisorError, clean
from advisor.result.apply import Instruction, Setting, by_hand
from advisor.result.document import Proposal, ResultData

if TYPE_CHECKING:
    from advisor.patching.applying import Patch

NOTHING = "# Nothing to change: keep what you have.\n"
MOST_LINES = 4  # of an edit, that stand in a table
MOST_REASON = 500  # characters, as in a report


@dataclass(frozen=True)
class Written:
    """What ``changes.patch`` edits.

    Attributes:
        knobs: Whose changes are edited.
        lines: What it adds, where that is one change of few lines.
        unwritten: By knob code that belongs to an edit and is still to be written.
        is_known: Whether the target was there to be read, or has none that could be edited.
    """

    knobs: frozenset[str] = frozenset()
    lines: str = ""
    unwritten: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = False


def changes_patch(result: ResultData) -> str:
    """One block per change that is made by hand: knob, from, to, the code to write, the environment to set.

    Then the diff of the others, where the target can be read and is still what was tuned. Under ``keep`` it
    is one line that says there is nothing to change. What is proposed but not recommended follows as a diff
    in comments, where it can be written at all. Ends with a newline; user text in comments holds no control
    characters and cannot start a line of its own.
    """
    return _recommended(result) + "".join(map(partial(_proposed, result), result.recommendation.proposals))


def written(result: ResultData) -> "Written":
    """Which changes of a recommendation ``changes.patch`` edits."""
    from advisor.patching.applying import why_no_file

    patch, _ = _made(result)
    if patch is None:
        return Written(is_known=why_no_file(result) is not None)
    lines = added_lines(patch.diff) if len(patch.edited) == 1 else ""
    edited = frozenset(each.knob for each in patch.edited)
    unwritten = {each.knob: each.snippet for each in patch.instructions if each.knob in edited}
    return Written(edited, lines, unwritten, is_known=True)


def added_lines(diff: str) -> str:
    """Lines that a diff adds, with dots where others lie between them; empty if they are many."""
    parts: list[list[str]] = [[]]
    for line in diff.splitlines():
        if line.startswith("+") and line[:3] != "+++":
            parts[-1].append(line[1:])
        elif parts[-1] and line[:1] in (" ", "@"):
            parts.append([])
    if sum(map(len, parts)) > MOST_LINES:
        return ""
    return "\n...\n".join(textwrap.dedent("\n".join(part)) for part in parts if part)


def _recommended(result: ResultData) -> str:
    changes = result.recommendation.changes
    if result.recommendation.verdict == "keep" or not changes:
        return NOTHING
    patch, reason = _made(result)
    if patch is None:
        return patch_text(result.target.path, [], [by_hand(change, reason) for change in changes], "")
    return patch_text(patch.name, patch.edited, patch.instructions, patch.diff)


def _made(result: ResultData) -> "tuple[Patch | None, str]":
    """The patch, or none and the reason where it is worth telling."""
    from advisor.patching.applying import make_patch

    try:
        return make_patch(result), ""
    except AdvisorError:  # not here, or not what it was: as for any reader elsewhere
        return None, ""
    except Exception as error:  # whatever a program's source does to an edit, the report has to be written
        return None, f"advisor failed at it ({type(error).__name__})"


def _proposed(result: ResultData, proposal: Proposal) -> str:
    """Nothing where the target is not as it was, or no edit is certain."""
    from advisor.patching.applying import proposed_patch

    try:
        patch = proposed_patch(result, proposal)
    except AdvisorError:  # not here, or not what it was
        return ""
    except Exception as error:  # as above
        return f"#\n# proposed for {clean(proposal.knob)}: advisor failed at it ({type(error).__name__})\n"
    if not patch.diff:
        return ""
    changes = ", ".join(f"{clean(each.knob)} -> {_to(each)}" for each in patch.edited)
    lines = ["", f"proposed, not recommended: {changes}", clean(proposal.reason, MOST_REASON)]
    for each in patch.instructions:
        lines += ["", *_block(each, "note")]
    lines += ["", *map(clean, patch.diff.splitlines())]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def patch_text(name: str, edited: Sequence[Setting], instructions: Sequence[Instruction], diff: str) -> str:
    """A patch as text.

    Args:
        name: The file as the result names it.
        edited: Changes in the diff.
        instructions: Those that are left to the user.
        diff: May be empty.
    """
    made = {each.knob for each in edited}
    left = [each for each in instructions if each.knob not in made]
    lines = [_head(clean(name), len(edited), len(left))]
    lines += [f"edited: {clean(each.knob)} {_from(each)} -> {_to(each)}" for each in edited]
    for each in instructions:
        lines += ["", *_block(each, "note" if each.knob in made else "why not edited")]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + (f"#\n{diff}" if diff else "")


def _head(name: str, edited: int, left: int) -> str:
    count = edited + left
    changes = "1 change" if count == 1 else f"{count} changes"
    if not edited:
        return f"{changes} for {name}, to be made by hand."
    if not left:
        return f"{changes} for {name}."
    return f"{changes} for {name}: {edited} edited below, {left} to be made by hand."


def _block(change: Instruction, label: str) -> list[str]:
    lines = [f"knob: {clean(change.knob)}", f"from: {_from(change)}", f"to: {_to(change)}"]
    if change.reason:
        lines.append(f"{label}: {clean(change.reason)}")
    if change.snippet:
        lines += ["code:", *(f"    {clean(line)}" for line in change.snippet.splitlines())]
    if change.environment:
        lines += ["environment:", *exports(change.environment)]
    return lines


def exports(environment: Mapping[str, str]) -> list[str]:
    """Lines for a shell that set variables."""
    return [f"    export {clean(name)}={shlex.quote(clean(value))}" for name, value in environment.items()]


def _from(change: Setting) -> str:
    return clean(str(change.from_))


def _to(change: Setting) -> str:
    return clean(str(change.to))
