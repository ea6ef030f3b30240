"""``advisor init``: write a workload file, prefilled from a file that defines a model."""

import os
from pathlib import Path

import click

from advisor.base.errors import EnvironmentProblem, UsageError, clean
from advisor.cli import EXIT_CODES
from advisor.cli.completion import complete_file
from advisor.cli.options import Command, problems_of, setting
from advisor.cli.output import write
from advisor.cli.prefill import MARK, prefilled, skeleton
from advisor.cli.source import acts_when_imported, defines, model_classes, read_source

HELP = """Write a workload file.

FILE is a Python file that defines a model; what can be read from it is filled in.

\b
Examples:
  advisor init model.py
  advisor init --out my_workload.py
"""


@click.command(
    "init", cls=Command, from_files=(), help=HELP, epilog=EXIT_CODES, short_help="Write a workload file."
)
@click.argument("file", required=False, type=click.UNPROCESSED, shell_complete=complete_file)
@setting(
    "--out",
    type=str,
    metavar="FILE",
    group="Output",
    default_text="workload.py",
    help="The file to write; it must not exist.",
)
@setting("--no-color", group="Output", help="No colour.")
@setting("--debug", group="Output", help="Show tracebacks of errors.")
@click.pass_context
def command(ctx: click.Context, *, file: str | None, out: str | None, no_color: bool, debug: bool) -> int:
    """Read, write, say what is left to fill in."""
    problems_of(ctx).raise_any()
    path = Path(out or "workload.py")
    content = skeleton() if file is None else _from_file(file, path)
    _create(path, content)
    marked = [str(number) for number, line in enumerate(content.splitlines(), 1) if MARK in line]
    shown = clean(str(path))
    write(f"Wrote {shown}. Lines to look at: {', '.join(marked)}.\nNext: advisor tune {shown}\n")
    return 0


def _from_file(file: str, path: Path) -> str:
    shown = clean(file)
    tree = read_source(file)
    if defines(tree, "workload"):
        raise UsageError(f"{shown} defines a workload already", hint=f"`advisor tune {shown}`")
    models = model_classes(tree)
    if not models:
        raise UsageError(
            f"{shown} defines no model: no class derives from Module",
            hint="`advisor init` writes an empty one",
        )
    if acts_when_imported(tree):
        raise UsageError(
            f"{shown} does more than define a model", hint=f"tune it as it is: `advisor tune {shown}`"
        )
    return prefilled(Path(file), models, path)


def _create(path: Path, content: str) -> None:
    """Write a file that does not exist yet."""
    shown = clean(str(path))
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(content)
    except FileExistsError:
        raise UsageError(f"{shown} exists", where="--out", hint="another `--out`") from None
    except ValueError:
        raise UsageError(f"'{shown}' is not a file name", where="--out") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise EnvironmentProblem(f"cannot write {shown}: {reason}", where="--out") from None
