"""What to do with a result: one action, the command that does it, and how to take it back."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from advisor.result.conditions import reproduce
from advisor.result.document import Adopted, Document, ProfileData, ResultData
from advisor.result.wording import DISTURBED, UNJUDGED, is_blind, is_unfinished, shown
from advisor.storage.contract import default_study_name

DEFAULT_FOLDER = "advisor-report"
ENOUGH = re.compile("(`--budget [^`]+`) could")  # as `suggested_budget` names it


def report_folder(result: ResultData) -> str:
    """Where the report of a result lies by its command: what `--out` named, or the default."""
    own = result.command[: result.command.index("--")] if "--" in result.command else result.command
    follow = [after for option, after in pairwise(own) if option == "--out"]
    follow += [word.removeprefix("--out=") for word in own if word.startswith("--out=")]
    return follow[-1] if follow else DEFAULT_FOLDER


def apply_command(result: ResultData, folder: str | None = None) -> str:
    """The command that shows the changes as a patch, as a shell takes it; in a notebook, what makes them.

    Args:
        result: What ``tune`` found.
        folder: Where its report lies; by default where the command that made it wrote it.
    """
    if result.target.kind == "objects":
        return "result.apply(model=..., loader_kwargs=..., optimizer=...)"
    return shlex.join(["advisor", "apply", shown(folder or report_folder(result), 1000)])


@dataclass(frozen=True)
class Command:
    """A command of the first screen: what it does, and the words behind "Copy"."""

    name: str
    text: str
    means: str


def commands(result: ResultData, *, editable: bool) -> list[Command]:
    """How to look at the changes, to make them and to take them back, and how to measure again.

    Args:
        result: What ``tune`` found.
        editable: Whether the changes can be written into the program, or may be.
    """
    found, apply = [], apply_command(result)
    changes = result.recommendation.changes
    unset = [f"unset {' '.join(variables(changes))}"] if variables(changes) else []
    if result.recommendation.changes and result.target.kind == "objects":
        found = [Command("Apply", apply, "the command that applies")]
    elif result.recommendation.changes:
        found = [Command("Look", apply, "the command that shows the changes")]
        if assigned := [text for change in changes if is_set_outside(change) for text in environment(change)]:
            found.append(Command("Set", f"export {' '.join(assigned)}", "the variables to set"))
        if editable:
            found += [
                Command("Apply", f"{apply} --write", "the command that applies"),
                Command("Undo", " && ".join([f"{apply} --revert", *unset]), "the command that undoes"),
            ]
    return [*found, Command("Reproduce", reproduce(result), "the command that reproduces")]


def tune_command(result: Document, options: Sequence[str] = ()) -> str:
    """The command that searches for the same target, of a profile of requests with their objective."""
    own = result.command[: result.command.index("--")] if "--" in result.command else result.command
    module = ["-m"] if "-m" in own else []
    arguments = ["--", *result.target.args] if result.target.args else []
    counted = result.baseline if isinstance(result, ProfileData) else None
    unit = [] if counted is None or counted.latency is None else ["--objective", "latency"]
    words = ["advisor", "tune", *module, result.target.path, *unit, *options, *arguments]
    return shlex.join(shown(part) for part in words)


def next_step(result: ResultData, folder: str | None = None) -> str:
    """One action, and how to take it back.

    Args:
        result: What ``tune`` found.
        folder: Where its report lies, as in ``apply_command``.
    """
    changes = result.recommendation.changes
    if result.budget.stopped_by == "interrupted" and not changes:
        return f"Nothing was confirmed before the interrupt; {_again(result)} goes on with the study."
    if is_unfinished(result):
        return f"Run it again with {_again(result)} and a longer budget: what was measured counts on."
    if result.recommendation.verdict == "keep" or not changes:
        if is_blind(result.noise) or DISTURBED in result.recommendation.reason:
            return "Run it again while less else runs on this machine, or with a longer --budget."
        if offered := ENOUGH.search(result.recommendation.reason):
            return f"Run it again with {offered[1]}, which could confirm the best that was found."
        if any(each.reason.startswith(UNJUDGED) for each in result.not_tried):
            return "Run it again with a longer --budget: no time was left to judge a larger batch by goodput."
        if result.budget.stopped_by == "budget":
            return "Nothing that was tried is worth a change. A longer --budget tries more and sees more."
        return "Nothing to change. A longer --budget sees smaller differences."
    edits, them = ("the change", "it") if len(changes) == 1 else (f"the {len(changes)} changes", "them")
    if result.target.kind == "objects":
        return (
            f"`{apply_command(result)}` makes {edits} here. To undo: create model, loader and optimizer anew."
        )
    outside = [shown(change.knob, 80) for change in changes if is_set_outside(change)]
    beside = f"; {', '.join(outside)} you set before it starts" if outside else ""
    unset = f", and `unset {' '.join(variables(changes))}`" if variables(changes) else ""
    return (
        f"`{apply_command(result, folder)}` shows {edits} as a patch, --write makes {them}{beside}. "
        f"To undo: --revert{unset}."
    )


def _again(result: ResultData) -> str:
    """What goes on with this study; without its name that would be the one named after the target."""
    is_default = result.study in ("", default_study_name(result.target.path))
    if result.target.kind == "objects":
        return "resume=True" if is_default else f'study="{shown(result.study)}", resume=True'
    return "--resume" if is_default else f"--study {shlex.quote(shown(result.study))} --resume"


def variables(changes: Sequence[Adopted]) -> list[str]:
    """Names of the environment variables that make changes of which nothing is written in the program."""
    return [shown(name, 80) for change in changes if is_set_outside(change) for name in change.environment]


def is_set_outside(change: Adopted) -> bool:
    """Whether nothing of a change is written in the program: the environment makes it."""
    return bool(change.environment) and all(line.startswith("#") for line in change.snippet.splitlines())


def environment(change: Adopted) -> list[str]:
    """``NAME=value`` for each variable to set, quoted for a shell."""
    return [f"{shown(name)}={shlex.quote(shown(value))}" for name, value in change.environment.items()]
