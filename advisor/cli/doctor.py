"""``advisor doctor``: what will limit training here."""

import json
from dataclasses import asdict

import click

from advisor.cli import EXIT_CODES, values
from advisor.cli.options import Command, problems_of, setting
from advisor.cli.output import write
from advisor.errors import clean

HELP = """Look at machine and environment: what will limit training here.

\b
Examples:
  advisor doctor
  advisor doctor --format json
"""
MARKS = {"ok": "ok", "note": "note", "limit": "LIMIT", "broken": "BROKEN"}


@click.command(
    "doctor",
    cls=Command,
    from_files=(),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Check machine and environment.",
)
@setting(
    "--format",
    read=values.choice(("text", "json")),
    metavar="NAME",
    group="Output",
    default_text="text",
    help="text or json.",
)
@setting("--no-color", group="Output", help="No colour.")
@setting("--debug", group="Output", help="Show tracebacks of errors.")
@click.pass_context
def command(ctx: click.Context, *, format: str | None, no_color: bool, debug: bool) -> int:
    """Check and print; 5 where training cannot work at all."""
    problems_of(ctx).raise_any()
    from advisor.doctor import examine
    from advisor.profiles.machine import read_machine

    machine = read_machine()
    checks = examine(machine)
    if format == "json":
        document = {"machine": machine.as_json(), "checks": [asdict(check) for check in checks]}
        write(json.dumps(document, indent=2) + "\n")
    else:
        for check in checks:
            write(f"{MARKS[check.state]:<7} {check.name}: {clean(check.seen, 500)}\n")
            if check.advice:
                write(f"        {clean(check.advice, 500)}\n")
    return 5 if any(check.state == "broken" for check in checks) else 0
