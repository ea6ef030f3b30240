"""``advisor check``: the gate of a pipeline: is the target slower, or hungrier, than it was?"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.base.settings import Objective, Settings, TargetRequest, Value, objective_of_unit
from advisor.cli import EXIT_CODES, common, values
from advisor.cli.common import (
    ALLOW_WRITES,
    CONFIDENCE,
    DEBUG,
    DEVICE,
    DRY_RUN,
    FORMAT,
    LAUNCHER,
    MODULE,
    NO_COLOR,
    QUIET,
    SEED,
    report_folder,
)
from advisor.cli.completion import complete_file
from advisor.cli.dry_run import told
from advisor.cli.failures import interrupted_code
from advisor.cli.found import read_result_file
from advisor.cli.knob_options import Fixed, fix_option, merge_fixed
from advisor.cli.machine_checks import check_device, torch_build
from advisor.cli.options import SCRIPT_ARGUMENTS, TYPED, Command, problems_of, setting
from advisor.cli.output import tell, warn, width, write
from advisor.cli.problems import Problems
from advisor.cli.progress import progress_for
from advisor.cli.target import find_target
from advisor.profiles.facts.machine import Machine, read_machine
from advisor.result.check import CheckData
from advisor.result.document import ProfileData, ResultData

DEFAULT_BUDGET_S = 120.0
STAGES = ("run it unchanged in fresh processes", "compare with the reference")
Format = Literal["text", "json", "md"]

HELP = """Fail when a training step got slower, or memory grew, beyond noise.

TARGET is run unchanged, in at least three fresh processes, and compared with the baseline of RESULT: a
`result.json`, or the folder of a report, made on this machine with the same torch. A result that recommends
a form of a trained model may be of another one: then its answers are judged anew. Arguments of a script
follow after `--`.

\b
Examples:
  advisor check train.py --against advisor-report
  advisor check train.py --against main/result.json --min-gain 5% --format md -- --data DIR
  advisor check train.py --against advisor-report --annotate github
"""


@click.command(
    "check",
    cls=Command,
    from_files=("budget", "device", "fix", "seed", "min_gain", "confidence", "out"),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Fail when a step got slower, or memory grew, beyond noise.",
)
@click.argument("target", required=False, type=click.UNPROCESSED, shell_complete=complete_file)
@MODULE
@LAUNCHER
@ALLOW_WRITES
@setting(
    "--against",
    type=str,
    metavar="RESULT",
    group="What to run",
    help="The earlier result: a result.json, or the folder of a report.",
)
@DEVICE
@fix_option("Set a knob, as it was set for the reference.")
@SEED
@common.budget("2m", "Time for everything: 90s, 10m; more processes see smaller regressions.")
@common.min_gain("Growth that is let pass.")
@CONFIDENCE
@common.max_loss("Loss of the metric, relative, that the recommended form of a trained model may have.")
@common.folder("Folder for check.json and check.md; empty, new, an earlier check or report.")
@setting(
    "--annotate",
    type=values.Choice(("github",)),
    metavar="github",
    group="Output",
    help="In GitHub Actions, mark what got worse at the file; on stderr.",
)
@FORMAT
@DRY_RUN
@QUIET
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, target: str | None, module: str | None, launcher: bool, allow_writes: bool,
    against: str | None,
    device: str | None, fix: list[Fixed], seed: int | None, budget: float | None, min_gain: float | None,
    confidence: float | None, max_loss: float | None, out: str | None, annotate: str | None,
    format: Format | None, dry_run: bool, quiet: bool, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Check everything, run, judge, print."""
    problems = problems_of(ctx)
    typed, arguments = ctx.meta[TYPED], ctx.meta[SCRIPT_ARGUMENTS]
    request: TargetRequest | None = None
    with problems.gather():
        request = find_target(target, module, arguments, command="check", launcher=launcher)
    machine = read_machine()
    with problems.gather():
        check_device(device, machine)
    reference = _reference(problems, against, request, machine)
    folder = Path()
    with problems.gather(where="--out"):
        folder = report_folder(out)
    fixed: dict[str, Value] = {}
    with problems.gather():
        fixed = merge_fixed(fix)
    problems.raise_any()
    assert request is not None and reference is not None and against is not None
    settings = Settings(
        target=request,
        allow_writes=allow_writes,
        out=folder,
        budget_s=DEFAULT_BUDGET_S if budget is None else budget,
        fixed=fixed,
        device=device or "auto",
        objective=_objective(reference),
        max_loss=Settings.max_loss if max_loss is None else max_loss,
        min_gain=Settings.min_gain if min_gain is None else min_gain,
        confidence=Settings.confidence if confidence is None else confidence,
        seed=seed or 0,
        command=("check", *typed, *(("--", *arguments) if arguments else ())),
    )
    if dry_run:
        write(_plan(settings, against, format or "text"))
        return 0
    from advisor.runs.check import check

    with progress_for(quiet=quiet, no_color=no_color) as progress:
        result = check(settings, against, reference, progress)
    return show(result, settings.out, format or "text", annotate=annotate is not None)


def show(result: CheckData, folder: Path | None, format: Format, *, annotate: bool = False) -> int:
    """Write a check to a folder, print it; the exit code.

    Args:
        result: What was found, also when it was interrupted.
        folder: For check.json and check.md; ``None`` writes none.
        format: ``text``, ``json`` or ``md``.
        annotate: Also tell GitHub Actions what got worse.
    """
    from advisor.report.pages.check_page import render_markdown, render_text, write_check

    written = [] if folder is None else write_check(result, folder)
    match format:
        case "json":
            write(result.to_json())
        case "md":
            write(render_markdown(result))
        case "text":
            write(render_text(result, width()))
    for path in written:
        tell(f"Wrote {clean(str(path))}")
    if annotate:
        _annotate(result)
    if result.budget.stopped_by == "interrupted":
        return interrupted_code()
    return 1 if result.verdict == "regressed" else 0


def _objective(reference: ResultData | ProfileData) -> Objective:
    """In whose unit the program is counted as it was for the reference."""
    if isinstance(reference, ResultData):
        return objective_of_unit(reference.objective)
    return "goodput" if reference.baseline is None or reference.baseline.latency is None else "latency"


def _annotate(result: CheckData) -> None:
    """Annotations go to stderr, of which the runner reads commands as it does of stdout."""
    from advisor.report.annotations import IN_ACTIONS, annotations

    if os.environ.get(IN_ACTIONS) != "true":
        warn("--annotate github: this is not GitHub Actions, nothing was annotated")
        return
    for line in annotations(result):
        tell(line)


def _reference(
    problems: Problems, against: str | None, request: TargetRequest | None, machine: Machine
) -> ResultData | ProfileData | None:
    """The result to compare with, if it can be compared with."""
    with problems.gather(where="--against"):
        if against is None:
            raise UsageError(
                "Missing option '--against'.",
                hint="`advisor check train.py --against advisor-report`; `advisor tune` makes one",
            )
        reference = read_result_file(against)
        if request is not None:
            from advisor.runs.check import refuse_reference

            version, _ = torch_build()
            refuse_reference(reference, request, replace(machine, torch=version or machine.torch))
        return reference
    return None


def _plan(settings: Settings, against: str, format: Format) -> str:
    """What ``--dry-run`` says."""
    facts: dict[str, Any] = {
        "target": settings.target.name, "kind": settings.target.kind, "arguments": list(settings.target.args),
        "against": against, "device": settings.device, "stages": list(STAGES), "budget_s": settings.budget_s,
        "fixed": settings.fixed, "min_gain": settings.min_gain, "confidence": settings.confidence,
        "seed": settings.seed, "out": "nothing" if settings.out is None else str(settings.out),
    }  # fmt: skip
    return told(facts, as_json=format == "json")
