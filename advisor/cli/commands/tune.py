"""``advisor tune``: find out what to change about a training run, and prove it."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from advisor.base.errors import clean
from advisor.base.settings import Objective, Progress, Settings, TargetRequest, Value
from advisor.cli import EXIT_CODES, common, values
from advisor.cli.common import (
    ALL,
    ALLOW_WRITES,
    CONFIDENCE,
    DEBUG,
    DEVICE,
    DRY_RUN,
    FORMAT,
    LAUNCHER,
    MODULE,
    NO_COLOR,
    ON,
    OUT,
    QUIET,
    RANKS,
    report_folder,
)
from advisor.cli.completion import complete_file
from advisor.cli.configuration import Form
from advisor.cli.dry_run import plan
from advisor.cli.failures import interrupted_code
from advisor.cli.knob_options import (
    Fixed,
    Wish,
    fix_option,
    knob_option,
    merge_fixed,
    merge_knobs,
    refuse_contradictions,
)
from advisor.cli.machine_checks import check_device, check_ranks
from advisor.cli.options import SCRIPT_ARGUMENTS, TYPED, Command, problems_of, setting, typed_here
from advisor.cli.output import tell, warn, width, write
from advisor.cli.problems import Problems
from advisor.cli.progress import progress_for
from advisor.cli.stored import written_command
from advisor.cli.target import already_used, find_target
from advisor.result.document import ResultData
from advisor.storage.contract import check_study_name
from advisor.storage.storage_url import DEFAULT_STORAGE, StorageUrl, parse_storage
from advisor.tuners.space.rank_constraints import with_ranks

if TYPE_CHECKING:
    from advisor.profiles.facts.machine import Machine

Run = Callable[[Settings, Progress], ResultData]

HELP = """Find out what to change about a training run, and prove it.

TARGET is a script, which is run unmodified, or a file that defines `workload`. Arguments of a script follow
after `--`.

\b
Examples:
  advisor tune train.py --budget 10m -- --data DIR
  advisor tune train.py --on slurm
  advisor tune -m package.train --knob num_workers --knob amp=bf16
"""


@click.command(
    "tune", cls=Command, help=HELP, epilog=EXIT_CODES, short_help="Find out what to change, and prove it."
)
@click.argument("target", required=False, type=click.UNPROCESSED, shell_complete=complete_file)
@MODULE
@LAUNCHER
@ALLOW_WRITES
@DEVICE
@ON
@RANKS
@fix_option("Set a knob for the baseline and all candidates.")
@common.seed("Of the runs and of the search.")
@common.budget("10m", "Time to spend: 90s, 10m, 2h; a confirmation under way may take half as long again.")
@common.trials("Trials at most.")
@common.whole_number("--steps", "Steps to measure.", default="adaptive")
@common.whole_number("--warmup", "Steps before measuring.", least=0, default="adaptive")
@common.whole_number(
    "--steps-planned",
    "Steps of the real training, to weigh the cost of compiling.",
    default="the script's own length, if known",
)
@setting(
    "--price",
    read=values.price,
    metavar="PER_HOUR",
    form=Form((int, float)),
    group="Limits",
    help="Price of the machine per hour, to tell what the planned steps cost.",
)
@setting(
    "--max-memory",
    read=values.size,
    metavar="BYTES",
    form=Form((int, str)),
    group="Limits",
    default_text="device memory less 8 %",
    help="Memory that may be used: 8GiB.",
)
@common.whole_number("--max-batch", "Largest batch size to try.")
@common.objective("goodput, throughput or memory; latency or requests of a trained model.")
@common.max_loss("Loss of the metric, relative, that a faster form of a trained model may have.")
@common.latency_limit("Time that a request may take from its arrival on, waiting included: 20ms.")
@common.min_gain("Gain that must be exceeded.")
@CONFIDENCE
@knob_option("Try this knob, with these values; by default every knob that applies.")
@setting("--keep-batch", group="What is tried", help="Leave batch size and its learning rate as they are.")
@setting(
    "--allow",
    type=values.Choice(("training",)),
    metavar="training",
    group="What is tried",
    help="Measure changes of what is learnt; they are never recommended.",
)
@OUT
@setting(
    "--storage",
    type=str,
    metavar="URL",
    group="Output",
    default_text=DEFAULT_STORAGE,
    help="Where the study is stored.",
)
@setting(
    "--study",
    read=check_study_name,
    metavar="NAME",
    group="Output",
    default_text="named after the target",
    help="Name of the study.",
)
@setting("--resume", group="Output", help="Go on with a stored study.")
@FORMAT
@ALL
@DRY_RUN
@QUIET
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, target: str | None, module: str | None, launcher: bool, allow_writes: bool,
    device: str | None, on: str | None,
    ranks: tuple[int, ...] | None, fix: list[Fixed], seed: int | None, budget: float | None,
    trials: int | None, steps: int | None, warmup: int | None, steps_planned: int | None,
    max_memory: int | None, max_batch: int | None, price: float | None, objective: Objective | None,
    max_loss: float | None, latency_limit: float | None, min_gain: float | None, confidence: float | None,
    knob: list[Wish], keep_batch: bool, allow: str | None, out: str | None, storage: str | None,
    study: str | None, resume: bool, format: Literal["text", "json", "md"] | None, all: bool, dry_run: bool,
    quiet: bool, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Check everything, run, print."""
    problems = problems_of(ctx)
    request = _target(problems, target, module, ctx.meta[SCRIPT_ARGUMENTS], launcher=launcher)
    machine = _machine(problems, ranks, device)
    typed = ctx.meta[TYPED]
    url = _storage(problems, storage, is_typed=typed_here(ctx, "storage"))
    folder = _out(problems, out)
    knobs, fixed = _knobs(problems, knob, fix)
    if request is not None:
        from advisor.stages.launching import with_own_group

        fixed = with_own_group(fixed, request, ranks or ())
    fixed = with_ranks(fixed, ranks or (), machine)
    if resume and url is not None:
        with problems.gather():
            from advisor.cli.resuming import refuse_other_study

            refuse_other_study(
                url, study, request, objective=objective, fixed=fixed, ranks=ranks, seed=seed, machine=machine
            )
    problems.raise_any()
    assert request is not None and url is not None
    settings = _settings(
        target=request, out=folder, storage=storage or DEFAULT_STORAGE, study=study, resume=resume,
        budget_s=budget, trials=trials, objective=objective, keep_batch=keep_batch,
        allow_training=allow is not None, allow_writes=allow_writes,
        knobs=knobs, fixed=fixed, device=device, on=on, steps=steps, warmup=warmup,
        steps_planned=steps_planned, max_memory=max_memory, max_batch=max_batch, min_gain=min_gain,
        confidence=confidence, max_loss=max_loss, latency_limit_s=latency_limit, seed=seed,
        price_per_hour=price, ranks=ranks,
        command=written_command("tune", typed, url, ctx.meta[SCRIPT_ARGUMENTS]),
    )  # fmt: skip
    for text in (*url.warnings, *already_used(request, knobs)):
        warn(text, no_color=no_color)
    if dry_run:
        write(plan(settings, url, as_json=format == "json"))
        return 0
    from advisor.runs.tune import tune

    with progress_for(quiet=quiet, no_color=no_color) as progress:
        result = tune(settings, progress)
    return show(result, settings, format or "text", everything=all)


def show(
    result: ResultData, settings: Settings, format: Literal["text", "json", "md"], *, everything: bool = False
) -> int:
    """Print a result, where its report lies, and how to go on; the exit code.

    Args:
        result: What was found, also when the run was interrupted.
        settings: What was asked for.
        format: ``text``, ``json`` or ``md``.
        everything: As text, list rules that passed or do not apply, too.
    """
    from advisor.report.files import render_markdown, render_text

    match format:
        case "json":
            write(result.to_json())
        case "md":
            write(render_markdown(result))
        case "text":
            folder = None if settings.out is None else clean(str(settings.out), 1000)
            write(render_text(result, width(), folder, everything=everything))
    if settings.out is not None:
        tell(f"Report: {clean(str(settings.out / 'report.html'))}")
    if result.budget.stopped_by != "interrupted":
        return 0
    tell(f"To go on: {clean(resume_command(settings, result.study), 2000)}")
    return interrupted_code()


def resume_command(settings: Settings, study: str) -> str:
    """The command that continues an interrupted run."""
    words = list(settings.command)
    at = words.index("--") if "--" in words else len(words)
    before = [word for word in words[:at] if word != "--resume"]
    named = any(word == "--study" or word.startswith("--study=") for word in before)
    more = ["--resume"] if named else ["--study", study, "--resume"]
    return shlex.join(["advisor", *before, *more, *words[at:]])


def _target(
    problems: Problems, target: str | None, module: str | None, arguments: Sequence[str], *, launcher: bool
) -> TargetRequest | None:
    with problems.gather():
        return find_target(target, module, arguments, launcher=launcher)
    return None


def _machine(problems: Problems, ranks: tuple[int, ...] | None, device: str | None) -> "Machine":
    from advisor.profiles.facts.machine import read_machine

    machine = read_machine()
    with problems.gather():
        check_ranks(ranks, machine)
    with problems.gather():
        check_device(device, machine)
    return machine


def _storage(problems: Problems, storage: str | None, *, is_typed: bool) -> StorageUrl | None:
    with problems.gather(where="--storage"):
        return parse_storage(DEFAULT_STORAGE if storage is None else storage, from_environment=not is_typed)
    return None


def _out(problems: Problems, out: str | None) -> Path | None:
    with problems.gather(where="--out"):
        return report_folder(out)
    return None


def _knobs(
    problems: Problems, knob: list[Wish], fix: list[Fixed]
) -> tuple[dict[str, list[Value] | None], dict[str, Value]]:
    knobs = merge_knobs(knob)
    fixed: dict[str, Value] = {}
    with problems.gather():
        fixed = merge_fixed(fix)
        refuse_contradictions(knobs, fixed)
    return knobs, fixed


def _settings(**given: Any) -> Settings:
    """The settings; what was not given has its default."""
    return Settings(**{name: value for name, value in given.items() if value is not None})
