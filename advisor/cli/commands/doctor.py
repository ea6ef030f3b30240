"""``advisor doctor``: what will limit training here, and which settings hold."""

import json
import os
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.base.errors import clean
from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, ON, TEXT_OR_JSON
from advisor.cli.options import SETTINGS_FILE, Command, Setting, problems_of, settings_of, typed_here
from advisor.cli.output import warn, width, write
from advisor.cli.problems import Problems
from advisor.storage.storage_url import parse_storage
from advisor.tuners.benches.engines import open_engine

if TYPE_CHECKING:
    from advisor.profiles.facts.machine import Machine
    from advisor.runs.doctor import Check
    from advisor.runs.nodes import SeenNode

HELP = """Look at machine and environment: what will limit training here.

Then say where each setting of `advisor tune` comes from in this folder. The command line wins over ADVISOR_*
variables, those over advisor.toml, and that over [tool.advisor] in pyproject.toml.

\b
Examples:
  advisor doctor
  advisor doctor --format json
  advisor doctor --on slurm
"""
MARKS = {"ok": "ok", "note": "note", "limit": "LIMIT", "broken": "BROKEN"}
INDENT = 8 * " "
COMMAND_LINE, DEFAULT = "command line", "default"


@dataclass(frozen=True)
class Origin:
    """Where the value of one setting of `advisor tune` comes from.

    Attributes:
        name: As the command line spells it, without its dashes.
        source: ``command line``, a variable, a file, or ``default``.
        value: As it is written there, less a password; ``None`` at the default and where it cannot be used.
        hidden: Weaker sources that set it too.
    """

    name: str
    source: str
    value: str | None = None
    hidden: tuple[str, ...] = ()


@click.command(
    "doctor",
    cls=Command,
    from_files=(),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Check machine and environment.",
)
@ON
@TEXT_OR_JSON
@NO_COLOR
@DEBUG
@click.pass_context
def command(ctx: click.Context, *, on: str | None, format: str | None, no_color: bool, debug: bool) -> int:
    """Check and print; 5 where training cannot work at all."""
    problems_of(ctx).raise_any()
    from advisor.profiles.facts.machine import read_machine
    from advisor.runs.doctor import examine
    from advisor.runs.nodes import checks_of

    machine = read_machine()
    tune = _tune_here()
    found = origins(ctx, tune)
    nodes = _nodes(on, machine)
    checks = [*examine(machine), *checks_of(nodes), *_checks(problems_of(tune))]
    if format == "json":
        document = {
            "machine": machine.as_json(),
            "checks": [asdict(check) for check in checks],
            "settings": [asdict(origin) for origin in found],
        }
        if nodes:
            document["nodes"] = [asdict(node) for node in nodes]
        write(json.dumps(document, indent=2) + "\n")
    else:
        for check in checks:
            write(f"{MARKS[check.state]:<7} {check.name}: {clean(check.seen, 500)}\n")
            if check.advice:
                write(f"{INDENT}{clean(check.advice, 500)}\n")
        write(_listed(found))
    return 5 if any(check.state == "broken" for check in checks) else 0


def _nodes(on: str | None, machine: "Machine") -> "list[SeenNode]":
    """The nodes of an engine, each asked; none where only this machine is meant."""
    if on in (None, "here"):
        return []
    from advisor.runs.nodes import look_at

    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        return look_at(open_engine(on, Path(folder)), machine)


def _tune_here() -> click.Context:
    """What click reads for `advisor tune` in this folder and environment."""
    from advisor.cli.commands.tune import command as tune

    context = tune.make_context("tune", [])
    for text, hint in context.meta[SETTINGS_FILE].warnings:
        warn(text, hint=hint)
    return context


def origins(here: click.Context, tune: click.Context) -> list[Origin]:
    """The origin of every setting of `advisor tune`, in the order of their names.

    Args:
        here: This command, whose own options may be typed.
        tune: What is read for `advisor tune`; is told of a storage that cannot be used.
    """
    found = []
    for setting in sorted(settings_of(tune.command), key=lambda setting: str(setting.name)):
        label, sources = setting.flag.lstrip("-"), list(_sources(setting, here, tune))
        if not sources:
            found.append(Origin(label, DEFAULT))
            continue
        (source, content), *weaker = sources
        value: str | None = clean(content, 200)
        if source != COMMAND_LINE and tune.params[str(setting.name)] in (None, []):
            value = None
        elif setting.name == "storage":
            value = _without_password(content, source, problems_of(tune))
        found.append(Origin(label, source, value, tuple(other for other, _ in weaker)))
    return found


def _sources(setting: Setting, here: click.Context, tune: click.Context) -> Iterator[tuple[str, str]]:
    """All that set one setting, the strongest first, each with what is written there."""
    name, file = str(setting.name), tune.meta[SETTINGS_FILE]
    if typed_here(here, name):
        yield COMMAND_LINE, _spelt(here.params[name])
    if os.environ.get(setting.variable):
        yield setting.variable, os.environ[setting.variable]
    if name in file.written:
        yield file.name, _spelt(file.written[name])


def _spelt(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value) if isinstance(value, list) else str(value)


def _without_password(url: str, source: str, problems: Problems) -> str | None:
    """A storage URL for all to see; ``None`` where it cannot be used."""
    with problems.gather(where=source):
        return str(parse_storage(url, from_environment=True))
    return None


def _checks(wrong: Problems) -> "list[Check]":
    """What is wrong with files and variables, which the other commands would refuse."""
    from advisor.runs.doctor import Check

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
