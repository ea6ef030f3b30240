"""``advisor apply``: the recommendation as a patch of the program: shown, measured, written, taken back."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.base.settings import Settings, objective_of_unit
from advisor.cli import EXIT_CODES, common
from advisor.cli.common import DEBUG, NO_COLOR, QUIET, STORED, TEXT_OR_JSON
from advisor.cli.completion import complete_result
from advisor.cli.found import find_result
from advisor.cli.options import Command, problems_of, setting
from advisor.cli.output import tell, warn, write
from advisor.result.apply import ApplyData, Verification
from advisor.result.document import ResultData, Value
from advisor.result.header import header

if TYPE_CHECKING:
    from advisor.patching.applying import Patch

DEFAULT_BUDGET_S = 180.0
Format = Literal["text", "json"]

HELP = """Show, write, verify or take back the patch of a recommendation.

RESULT is a `result.json`, the folder of a report, or the name of a study; run it in the folder where
`advisor tune` ran. What can be edited without guessing becomes a diff of the program, everything else an
instruction. Nothing is written without `--write`.

\b
Examples:
  advisor apply advisor-report
  advisor apply advisor-report --write --verify
"""


@click.command(
    "apply",
    cls=Command,
    from_files=("storage",),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Show, write, verify or take back the patch of a recommendation.",
)
@click.argument("result", required=False, type=click.UNPROCESSED, shell_complete=complete_result)
@setting(
    "--write",
    group="What to run",
    help="Edit the program; the file as it was stays beside it, named *.orig.",
)
@setting(
    "--verify",
    group="What to run",
    help="Measure the patched program against it as it is; with --write, write only if the gain is there.",
)
@setting("--revert", group="What to run", help="Put the program back as it was before it was patched.")
@STORED
@common.budget("3m", "Time for --verify: 90s, 10m; a verdict needs six pairs of processes.")
@TEXT_OR_JSON
@QUIET
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, result: str | None, write: bool, verify: bool, revert: bool, storage: str | None,
    budget: float | None, format: Format | None, quiet: bool, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Find the result, make the patch, do what is asked, print."""
    problems = problems_of(ctx)
    with problems.gather():
        if result is None:
            raise UsageError("Missing argument 'RESULT'.", hint="`advisor apply advisor-report`")
    with problems.gather():
        if revert and (write or verify):
            raise UsageError(f"--revert and --{'write' if write else 'verify'} exclude each other")
    with problems.gather():
        if budget is not None and not verify:
            raise UsageError("--budget is the time for --verify", hint="add `--verify`, or leave it out")
    problems.raise_any()
    assert result is not None
    found = _tuned(result, storage)
    if revert:
        return show(_reverted(found), format or "text")
    data = _applied(
        found, writing=write, budget_s=_budget(budget) if verify else None, quiet=quiet, no_color=no_color
    )
    code = show(data, format or "text")
    _say_what_is_next(data, result)
    return code


def show(data: ApplyData, format: Format) -> int:
    """Print what was done; the exit code."""
    from advisor.report.pages.apply_page import render_text

    write(data.to_json() if format == "json" else render_text(data))
    return 0 if data.verification is None or data.verification.holds else 1


def _budget(given: float | None) -> float:
    return DEFAULT_BUDGET_S if given is None else given


def _tuned(name: str, storage: str | None) -> ResultData:
    """A result with a recommendation."""
    found = find_result(name, storage)
    if not isinstance(found, ResultData):
        raise UsageError(
            f"{clean(name)} is a profile, without a recommendation", hint="`advisor tune TARGET` makes one"
        )
    return found


def _applied(
    found: ResultData, *, writing: bool, budget_s: float | None, quiet: bool, no_color: bool
) -> ApplyData:
    from advisor.patching import backup
    from advisor.patching.applying import make_patch

    try:
        patch = make_patch(found)
    except UsageError as error:
        if error.code == "target_changed":
            _refuse_written(found)
        raise
    data = _document(found, "shown")
    if found.recommendation.verdict == "keep" or not found.recommendation.changes:
        data.status = "nothing"
        return data
    data.file = None if patch.file is None else patch.name
    data.diff, data.edited, data.instructions = patch.diff, patch.edited, patch.instructions
    data.environment = patch.environment
    if budget_s is not None:
        data.verification = _verified(found, patch, budget_s, quiet=quiet, no_color=no_color)
    if not writing:
        return data
    if patch.file is None or not patch.edited or not (data.verification is None or data.verification.holds):
        data.status = "not_written"
        return data
    if backup.has_uncommitted_changes(patch.file):
        data.warnings.append(
            f"{clean(patch.name)} has uncommitted changes; backup at {clean(patch.name)}{backup.BACKUP}"
        )
        warn(data.warnings[-1], no_color=no_color)
    data.backup = clean(f"{patch.name}{backup.BACKUP}")
    backup.write_patch(patch.file, patch.before, patch.after)
    data.status = "written"
    return data


def _refuse_written(found: ResultData) -> None:
    """Say so where the target changed because its patch was written."""
    from advisor.patching import backup
    from advisor.patching.applying import find_target, patched

    if backup.is_written(find_target(found.target.path), partial(patched, found)):
        raise UsageError(
            f"the patch was written to {clean(found.target.path)} before",
            hint="`advisor apply RESULT --revert` takes it back",
            code="written_before",
        )


def _verified(
    found: ResultData, patch: "Patch", budget_s: float, *, quiet: bool, no_color: bool
) -> Verification:
    from advisor.cli.machine_checks import check_device, torch_build
    from advisor.cli.progress import progress_for
    from advisor.cli.target import find_target
    from advisor.profiles.facts.machine import read_machine
    from advisor.runs.verify import refuse_promise, verify

    machine = read_machine()
    version, _ = torch_build()
    refuse_promise(found, patch, replace(machine, torch=version or machine.torch))
    device = (_asked(found.command, "--device") or ["auto"])[-1]
    check_device(device, machine)
    settings = Settings(
        target=find_target(patch.name, None, found.target.args, command="apply"),
        budget_s=budget_s,
        fixed=_fixed(found),
        device=device,
        objective=objective_of_unit(found.objective),
        min_gain=found.min_gain,
        confidence=found.recommendation.speedup.confidence,
        seed=found.seed or 0,
        allow_writes="--allow-writes" in _own(found.command),
        command=("apply",),
    )
    with progress_for(quiet=quiet, no_color=no_color) as progress:
        return verify(settings, found, patch, progress)


def _fixed(found: ResultData) -> dict[str, Value]:
    """What was set for baseline and candidates alike when the result was made."""
    from advisor.cli.knob_options import merge_fixed, read_fix

    return merge_fixed([read_fix(text) for text in _asked(found.command, "--fix")])


def _asked(words: Sequence[str], option: str) -> list[str]:
    """Values of an option of the command that made a result."""
    own = _own(words)
    values = [word.partition("=")[2] for word in own if word.startswith(f"{option}=")]
    return values + [after for word, after in pairwise(own) if word == option]


def _own(words: Sequence[str]) -> list[str]:
    """Words of a command that are not the program's."""
    return list(words[: words.index("--")] if "--" in words else words)


def _reverted(found: ResultData) -> ApplyData:
    from advisor.patching import backup
    from advisor.patching.applying import find_target, patched, why_no_file

    reason = why_no_file(found)
    if reason is not None:
        raise UsageError(f"nothing was patched: {reason}")
    backup.revert(find_target(found.target.path), partial(patched, found))
    data = _document(found, "reverted")
    data.file = found.target.path
    return data


def _document(found: ResultData, status: Literal["shown", "reverted"]) -> ApplyData:
    return ApplyData(**header(), target=found.target, status=status)


def _say_what_is_next(data: ApplyData, name: str) -> None:
    """On stderr: what was written, or how to."""
    shown = clean(data.target.path)
    if data.status == "written":
        tell(f"Wrote {shown}; as it was: {data.backup}. To undo: advisor apply {clean(name)} --revert")
    elif data.status == "not_written":
        tell("Nothing was written.")
    elif data.status == "shown" and data.edited and (data.verification is None or data.verification.holds):
        tell(f"Nothing was written; to edit {shown}: advisor apply {clean(name)} --write")
