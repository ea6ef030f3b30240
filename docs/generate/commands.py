"""The reference of the command line, made of what ``--help`` says."""

import importlib
import textwrap

import click
from text import fenced, prose, table

from advisor.cli import AVAILABLE, EXIT_CODES
from advisor.cli.options import GROUPS, Setting


def page() -> str:
    """All commands with their options."""
    lines = [
        "# Commands",
        "Results go to stdout, progress and warnings to stderr. With `--format json` stdout holds one JSON "
        "document and nothing else, also on failure. An option may also stand in a variable "
        "(`ADVISOR_BUDGET=5m`), in `advisor.toml` or under `[tool.advisor]` in pyproject.toml; the command "
        "line wins over the variable, that over the files. What follows `--` belongs to the program.",
        "## Exit codes",
        fenced(textwrap.dedent(EXIT_CODES.partition(":\n")[2]).rstrip()),
    ]
    for name in AVAILABLE:
        command: click.Command = importlib.import_module(f"advisor.cli.commands.{name}").command
        lines += _command(command, f"advisor {name}")
    return "\n\n".join(lines) + "\n"


def _command(command: click.Command, path: str) -> list[str]:
    ctx = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(ctx))
    lines = [f"## {path}", fenced(f"{path} {usage}"), *_help(command.help or "")]
    for group in GROUPS:
        rows = [
            (f"`{names}`", prose(said))
            for param in command.get_params(ctx)
            if isinstance(param, click.Option)
            and (param.group if isinstance(param, Setting) else "Output") == group
            and (record := param.get_help_record(ctx)) is not None
            for names, said in [record]
        ]
        if rows:
            lines += [f"**{group}**", table(("option", "meaning"), rows)]
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None:
                lines += _command(inner, f"{path} {name}")
    return lines


def _help(text: str) -> list[str]:
    """Paragraphs; what click is told not to wrap becomes a block of code under its first line."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        if not paragraph.lstrip().startswith("\b"):
            found.append(prose(paragraph))
            continue
        first, *rest = paragraph.replace("\b", "").strip().splitlines()
        found.append(prose(first))
        if rest:
            found.append(fenced("\n".join(line.strip() for line in rest)))
    return found
