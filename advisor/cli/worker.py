"""``advisor worker``: take part in a study from another process or machine."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from advisor.cli import EXIT_CODES, common
from advisor.cli.common import DEBUG, DEVICE, LAUNCHER, MODULE, NO_COLOR, QUIET, RANKS, SEED, TEXT_OR_JSON
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
from advisor.cli.options import SCRIPT_ARGUMENTS, TYPED, Command, problems_of, setting
from advisor.cli.output import warn, write
from advisor.cli.progress import progress_for
from advisor.cli.stored import parse_given, written_command
from advisor.cli.target import find_target
from advisor.contract import check_study_name, default_study_name
from advisor.errors import UsageError, clean
from advisor.settings import Objective, Progress, Settings, TargetRequest, Value
from advisor.storage_url import DEFAULT_STORAGE, StorageUrl, refuse_unshared
from advisor.tuners.rank_constraints import with_ranks
from advisor.wording import short_ratio

if TYPE_CHECKING:
    from advisor.worker import Report

HELP = """Join a study from another process or machine.

The worker measures a baseline of its own, then takes trials of the study and compares each with it. Workers
on machines of one kind make a group; groups are shown side by side and never mixed. The program is a file of
this machine: TARGET, or the one file here that has the content of the study's target. With TARGET a study
that does not exist is begun. Give the options that the study was begun with; differences are listed.

\b
Examples:
  advisor worker --storage postgresql://ada@db/studies --study train
  advisor worker train.py --storage postgresql://ada@db/studies --study train --budget 2h -- --data DIR
"""


@click.command(
    "worker",
    cls=Command,
    from_files=(
        "storage", "study", "budget", "trials", "device", "ranks", "fix", "seed", "objective", "knob",
    ),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Join a study from another process or machine.",
)  # fmt: skip
@click.argument("target", required=False, type=click.UNPROCESSED)
@MODULE
@LAUNCHER
@setting(
    "--storage",
    type=str,
    metavar="URL",
    group="What to run",
    default_text=DEFAULT_STORAGE,
    help="Where the study is; several machines need postgresql://.",
)
@setting("--study", read=check_study_name, metavar="NAME", group="What to run", help="Name of the study.")
@DEVICE
@RANKS
@fix_option("Set a knob, as the study sets it.")
@SEED
@common.budget("10m", "Time of this worker: 90s, 10m, 2h.")
@common.trials("Trials of this worker at most.")
@common.objective("As in the study.")
@knob_option("As in the study; by default every knob that applies.")
@setting("--keep-batch", group="What is tried", help="As in the study.")
@TEXT_OR_JSON
@QUIET
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, target: str | None, module: str | None, launcher: bool, storage: str | None,
    study: str | None, device: str | None, ranks: tuple[int, ...] | None, fix: list[Fixed], seed: int | None,
    budget: float | None, trials: int | None, objective: Objective | None, knob: list[Wish],
    keep_batch: bool, format: Literal["text", "json"] | None, quiet: bool, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Check everything, join, print."""
    from advisor.profiles.machine import read_machine

    problems = problems_of(ctx)
    arguments: tuple[str, ...] = ctx.meta[SCRIPT_ARGUMENTS]
    machine = read_machine()
    has_target = target is not None or module is not None or launcher
    request: TargetRequest | None = None
    url: StorageUrl | None = None
    with problems.gather(where="--storage"):
        url = parse_given(storage)
        refuse_unshared(url)
    with problems.gather():
        if has_target:
            request = find_target(target, module, arguments, "worker", launcher=launcher)
        elif study is None:
            raise UsageError("Missing option '--study'.", hint="`advisor studies` lists them")
    with problems.gather():
        check_ranks(ranks, machine)
        check_device(device, machine)
    knobs, fixed = merge_knobs(knob), dict[str, Value]()
    with problems.gather():
        fixed = merge_fixed(fix)
        refuse_contradictions(knobs, fixed)
    problems.raise_any()
    assert url is not None
    name = study or default_study_name(request.name if request else "")
    if request is None:
        request = _target_here(url, name, arguments)
    from advisor.launching import with_own_group

    fixed = with_ranks(with_own_group(fixed, request, ranks or ()), ranks or (), machine)
    given: dict[str, Any] = {
        "budget_s": budget, "trials": trials, "objective": objective, "device": device, "seed": seed,
        "ranks": ranks,
    }  # fmt: skip
    settings = Settings(
        target=request, storage=storage or DEFAULT_STORAGE, study=name, keep_batch=keep_batch, knobs=knobs,
        fixed=fixed, command=written_command("worker", ctx.meta[TYPED], url, arguments),
        **{key: value for key, value in given.items() if value is not None},
    )  # fmt: skip
    with progress_for(quiet=quiet, no_color=no_color) as progress:
        report = _work(url, name, settings, progress, create=has_target)
    write(_json(report) if format == "json" else _text(report))
    return interrupted_code() if report.stopped_by == "interrupted" else 0


def _work(url: StorageUrl, study: str, settings: Settings, progress: Progress, *, create: bool) -> "Report":
    from advisor.bench import TargetBench
    from advisor.signals import StopRequests
    from advisor.study import study_folder
    from advisor.worker import Worker

    base = Path(".advisor") if url.path is None else url.path.parent
    base.mkdir(mode=0o700, exist_ok=True)
    folder = study_folder(study, base / "studies")
    with StopRequests() as stop:
        bench = TargetBench(settings, study, folder, progress, lambda what, seconds: None)
        worker = Worker(url, study, settings, bench, progress, stop, base / "spool", create)
        bench.waiting = worker.waiting
        return worker.run()


def _target_here(url: StorageUrl, study: str, arguments: tuple[str, ...]) -> TargetRequest:
    """The file here that is the study's target; what the study says of its place is not used."""
    from advisor.joining import find_target as find_same
    from advisor.store import Store

    with Store.open(url, create=False, warn=warn) as store:
        stored = store.require_study(study)
    found = find_same(stored.contract, Path.cwd(), study)
    return find_target(found, None, arguments, "worker")


def _json(report: "Report") -> str:
    plain = asdict(report)
    plain["best"] = None if report.best is None else report.best.model_dump(mode="json", by_alias=True)
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def _text(report: "Report") -> str:
    counts = [f"{report.trials} trial{'' if report.trials == 1 else 's'}"]
    counts += [f"{report.lost} lost to other workers"] if report.lost else []
    counts += [f"{report.refused} refused"] if report.refused else []
    lines = [f"Measured {', '.join(counts)} on {clean(report.machine)}."]
    best = report.best
    if best is None or best.against_baseline is None:
        lines.append("No trial of this group is faster than its baseline so far.")
    else:
        ratio = short_ratio(best.against_baseline)
        lines.append(f"Best of this group: trial {best.number}, {ratio}, not confirmed.")
    lines.append(f"All groups: advisor report {report.study} --format md --storage URL")
    return "\n".join(lines) + "\n"
