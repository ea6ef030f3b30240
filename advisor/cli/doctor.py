"""``advisor doctor``: what will limit training here, and which settings hold."""

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, TEXT_OR_JSON
from advisor.cli.configuration import DEFAULT, Origin, origins
from advisor.cli.options import Command, Setting, problems_of, typed_here
from advisor.cli.output import width, write
from advisor.cli.problems import Problems
from advisor.errors import clean

if TYPE_CHECKING:
    from advisor.doctor import Check

HELP = """Look at machine and environment: what will limit training here.

Then say where each setting of `advisor tune` comes from in this folder. The command line wins over ADVISOR_*
variables, those over advisor.toml, and that over [tool.advisor] in pyproject.toml.

\b
Examples:
  advisor doctor
  advisor doctor --format json
"""
MARKS = {"ok": "ok", "note": "note", "limit": "LIMIT", "broken": "BROKEN"}
INDENT = 8 * " "


@click.command(
    "doctor",
    cls=Command,
    from_files=(),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Check machine and environment.",
)
@TEXT_OR_JSON
@NO_COLOR
@DEBUG
@click.pass_context
def command(ctx: click.Context, *, format: str | None, no_color: bool, debug: bool) -> int:
    """Check and print; 5 where training cannot work at all."""
    problems_of(ctx).raise_any()
    from advisor.doctor import examine
    from advisor.profiles.machine import read_machine

    machine = read_machine()
    wrong = Problems()
    found = origins(_settings(), _typed(ctx), wrong)
    checks = [*examine(machine), *_checks(wrong)]
    if format == "json":
        document = {
            "machine": machine.as_json(),
            "checks": [asdict(check) for check in checks],
            "settings": [asdict(origin) for origin in found],
        }
        write(json.dumps(document, indent=2) + "\n")
    else:
        for check in checks:
            write(f"{MARKS[check.state]:<7} {check.name}: {clean(check.seen, 500)}\n")
            if check.advice:
                write(f"{INDENT}{clean(check.advice, 500)}\n")
        write(_listed(found))
    return 5 if any(check.state == "broken" for check in checks) else 0


def _settings() -> dict[str, Setting]:
    """What a file or a variable may set: the settings of `advisor tune`, by parameter name."""
    from advisor.cli.tune import command as tune

    return {param.name: param for param in tune.params if isinstance(param, Setting) and param.name}


def _typed(ctx: click.Context) -> dict[str, str]:
    """What was typed to this command, by parameter name."""
    options = [param for param in ctx.command.params if isinstance(param, Setting) and param.name]
    return {
        str(option.name): "true" if option.read is None else str(ctx.params[str(option.name)])
        for option in options
        if typed_here(option.flag)
    }


def _checks(wrong: Problems) -> "list[Check]":
    """What is wrong with files and variables, which the other commands would refuse."""
    from advisor.doctor import Check

    return [
        Check(
            "settings", "limit", f"{error.where}: {error.message}" if error.where else error.message,
            error.hint or "`advisor tune` stops at this: correct it",
        )
        for error in wrong.found
    ]  # fmt: skip


def _listed(found: list[Origin]) -> str:
    """What is set and by whom, a line each, and all that is not."""
    lines = []
    for origin in found:
        if origin.source != DEFAULT:
            value = "(cannot be read)" if origin.value is None else origin.value
            instead = f", in place of {' and '.join(origin.hidden)}" if origin.hidden else ""
            lines.append(f"{'set':<7} {origin.name}: {value}, by {origin.source}{instead}\n")
    left = ", ".join(origin.name for origin in found if origin.source == DEFAULT)
    lines.append(
        textwrap.fill(
            left, width(), initial_indent="default ", subsequent_indent=INDENT, break_on_hyphens=False
        )
        + "\n"
    )
    return "".join(lines)
