"""``advisor profile``: one run, diagnosed; or trace files made elsewhere, read."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.base.settings import Settings, TargetRequest, Value
from advisor.cli import EXIT_CODES, common, values
from advisor.cli.common import (
    ALL,
    ALLOW_WRITES,
    DEBUG,
    DEVICE,
    DRY_RUN,
    LAUNCHER,
    MODULE,
    NO_COLOR,
    OUT,
    QUIET,
    RANKS,
    SEED,
    report_folder,
)
from advisor.cli.completion import complete_file
from advisor.cli.dry_run import starts, told, written
from advisor.cli.failures import interrupted_code
from advisor.cli.knob_options import Fixed, fix_option, merge_fixed
from advisor.cli.machine_checks import check_device, check_ranks
from advisor.cli.options import SCRIPT_ARGUMENTS, TYPED, Command, problems_of, setting
from advisor.cli.output import tell, width, write
from advisor.cli.progress import progress_for
from advisor.cli.target import find_target, is_trace
from advisor.cli.values import did_you_mean
from advisor.result.document import ProfileData
from advisor.tuners.space.rank_constraints import with_ranks

DEFAULT_BUDGET_S = 120.0
FILES = ("report.html", "result.json", "report.md")
STAGES = ("watch", "inspect", "record", "replay", "report")
OF_A_RUN = (
    "--budget", "--device", "--fix", "--objective", "--ranks", "--seed", "--steps", "--steps-planned",
    "--warmup",
)  # fmt: skip
Format = Literal["text", "json", "md", "html", "sarif"]

HELP = """Find out what is slow in one training run, where, and how much it could give.

TARGET is a script, which is run unmodified, a file that defines `workload`, or one or more traces of
torch.profiler (JSON, gzipped or not; one file per rank). Arguments of a script follow after `--`. A program
that ends without a training step is run again, and its requests to a trained model are counted.

\b
Examples:
  advisor profile train.py -- --data DIR
  advisor profile trace.json.gz --format html > trace.html
"""


@click.command(
    "profile",
    cls=Command,
    from_files=("budget", "device", "fix", "seed", "steps", "warmup", "out"),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Find out what is slow, where, and how much it could give.",
)
@click.argument("targets", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_file)
@MODULE
@LAUNCHER
@ALLOW_WRITES
@DEVICE
@RANKS
@fix_option("Set a knob for the run.")
@SEED
@common.budget("2m", "Time for everything: 90s, 10m.")
@common.whole_number("--steps", "Clean steps to watch at least.", default="adaptive")
@common.whole_number("--warmup", "Steps before watching.", least=0, default="adaptive")
@setting(
    "--objective",
    type=values.Choice(("latency", "requests")),
    metavar="NAME",
    group="What counts",
    help="latency or requests: count requests to a trained model from the start.",
)
@common.whole_number("--steps-planned", "Steps of the real training, to weigh what comes once.")
@OUT
@common.formats("text", "json", "md", "html", "sarif")
@ALL
@DRY_RUN
@QUIET
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, targets: tuple[str, ...], module: str | None, launcher: bool, allow_writes: bool,
    device: str | None,
    ranks: tuple[int, ...] | None, fix: list[Fixed], seed: int | None, budget: float | None,
    steps: int | None, warmup: int | None, objective: Literal["latency", "requests"] | None,
    steps_planned: int | None, out: str | None,
    format: Format | None, all: bool, dry_run: bool, quiet: bool, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Check everything, run or read, print."""
    problems = problems_of(ctx)
    typed, arguments = ctx.meta[TYPED], ctx.meta[SCRIPT_ARGUMENTS]
    command_line = ("profile", *typed, *(("--", *arguments) if arguments else ()))
    folder = Path()
    with problems.gather(where="--out"):
        folder = report_folder(out)
    if module is None and _are_traces(targets):
        with problems.gather():
            _refuse_for_traces(typed, arguments)
        for name in targets:
            with problems.gather():
                _require_file(name)
        problems.raise_any()
        return _read_traces(targets, command_line, folder, format or "text", everything=all, dry_run=dry_run)
    request: TargetRequest | None = None
    with problems.gather():
        request = _target(targets, module, arguments, launcher=launcher)
    from advisor.profiles.facts.machine import read_machine

    machine = read_machine()
    with problems.gather():
        check_ranks(ranks, machine)
    with problems.gather():
        check_device(device, machine)
    fixed = {}
    with problems.gather():
        fixed = with_ranks(_with_strategy(merge_fixed(fix), ranks), ranks or (), machine)
    problems.raise_any()
    assert request is not None
    settings = Settings(
        target=request,
        allow_writes=allow_writes,
        out=folder,
        budget_s=DEFAULT_BUDGET_S if budget is None else budget,
        fixed=fixed,
        device=device or "auto",
        steps=steps,
        warmup=warmup,
        steps_planned=steps_planned,
        objective=objective or Settings.objective,
        seed=seed or 0,
        command=command_line,
    )
    if dry_run:
        plan = {
            "target": request.name, "kind": request.kind, "arguments": list(request.args),
            "device": settings.device, "stages": list(STAGES), "budget_s": settings.budget_s,
            "fixed": fixed, "seed": settings.seed, "out": str(folder), "starts": starts(request),
            "writes": written(folder, FILES),
        }  # fmt: skip
        write(told(plan, as_json=format == "json"))
        return 0
    from advisor.runs.profile import profile

    with progress_for(quiet=quiet, no_color=no_color) as progress:
        result = profile(settings, progress)
    return show(result, folder, format or "text", everything=all)


def show(result: ProfileData, folder: Path, format: Format, *, everything: bool = False) -> int:
    """Print a profile and where its report lies; the exit code."""
    from advisor.report.files import render_html, render_markdown

    match format:
        case "json":
            write(result.to_json())
        case "md":
            write(render_markdown(result))
        case "html":
            write(render_html(result))
        case "sarif":
            from advisor.report.sarif import render_sarif

            write(render_sarif(result))
        case "text":
            from advisor.report.profile_text import render_profile

            write(render_profile(result, width(), everything=everything))
    tell(f"Report: {clean(str(folder / 'report.html'))}")
    return interrupted_code() if result.budget.stopped_by == "interrupted" else 0


def _target(
    targets: Sequence[str], module: str | None, arguments: Sequence[str], *, launcher: bool
) -> TargetRequest:
    if len(targets) > 1:
        raise UsageError(
            f"got an unexpected extra argument ({clean(targets[1])})",
            hint="arguments of the script go after `--`; only traces may be several",
        )
    name = targets[0] if targets else None
    return find_target(name, module, arguments, command="profile", launcher=launcher)


def _with_strategy(fixed: dict[str, Value], ranks: tuple[int, ...] | None) -> dict[str, Value]:
    """One strategy and one number of ranks: DistributedDataParallel where only ranks are named.

    Raises:
        UsageError: Several numbers of ranks.
    """
    if ranks is None or ranks == (1,):
        return fixed
    if len(ranks) > 1:
        raise UsageError("one run has one number of ranks", where="--ranks", hint=f"`--ranks {max(ranks)}`")
    return {"strategy": "ddp", **fixed}


def _are_traces(targets: Sequence[str]) -> bool:
    return bool(targets) and all(is_trace(name) for name in targets)


def _refuse_for_traces(typed: Sequence[str], arguments: Sequence[str]) -> None:
    if arguments:
        raise UsageError("a trace takes no arguments", hint="leave out what follows `--`")
    for word in typed:
        if word.partition("=")[0] in OF_A_RUN:
            raise UsageError("a trace was recorded already", where=word, hint=f"leave {word} out")


def _require_file(name: str) -> None:
    if "\0" in name or not os.path.lexists(name):
        folder, last = os.path.split(name.replace("\0", ""))
        known = (
            [entry for entry in os.listdir(folder or ".") if is_trace(entry)] if _is_folder(folder) else []
        )
        hint = did_you_mean(last, known)
        if hint:
            hint = clean(hint.replace("did you mean ", f"did you mean {os.path.join(folder, '')}"))
        raise UsageError(f"no such file: {clean(name)}", hint=hint)


def _is_folder(folder: str) -> bool:
    return os.path.isdir(folder or ".") and os.access(folder or ".", os.R_OK)


def _read_traces(
    names: Sequence[str],
    command: tuple[str, ...],
    folder: Path,
    format: Format,
    *,
    everything: bool,
    dry_run: bool,
) -> int:
    if dry_run:
        facts = {"target": list(names), "kind": "trace", "out": str(folder), "writes": written(folder, FILES)}
        write(told(facts, as_json=format == "json"))
        return 0
    from advisor.runs.profile_traces import profile_traces

    result = profile_traces([Path(name) for name in names], command, folder)
    return show(result, folder, format, everything=everything)
