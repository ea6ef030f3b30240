"""``advisor knobs``: what can be tried."""

import inspect
import json
import textwrap
from typing import Any

import click

from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, TEXT_OR_JSON
from advisor.cli.completion import complete_knob
from advisor.cli.knob_options import known_knob
from advisor.cli.options import Command, problems_of
from advisor.cli.output import width, write
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.knobs import KNOBS

HELP = """List the knobs, or show the page of one.

\b
Examples:
  advisor knobs
  advisor knobs num_workers
"""


@click.command(
    "knobs", cls=Command, from_files=(), help=HELP, epilog=EXIT_CODES, short_help="List what can be tried."
)
@click.argument("knob", required=False, type=click.UNPROCESSED, shell_complete=complete_knob)
@TEXT_OR_JSON
@NO_COLOR
@DEBUG
@click.pass_context
def command(ctx: click.Context, *, knob: str | None, format: str | None, no_color: bool, debug: bool) -> int:
    """Print the list or a page."""
    problems_of(ctx).raise_any()
    names = list(KNOBS) if knob is None else [known_knob(knob)]
    if format == "json":
        facts = [_facts(name, KNOBS[name]) for name in names]
        write(json.dumps(facts if knob is None else facts[0], indent=2) + "\n")
    elif knob is None:
        write("".join(_entry(name, one) for name, one in KNOBS.items()))
    else:
        write(page(knob))
    return 0


def page(name: str) -> str:
    """Everything there is to know about a knob, as text."""
    knob = KNOBS[name]
    snippets = "\n".join(
        f"  {value}:\n{textwrap.indent(knob.change(value).snippet, '    ')}" for value in _examples(knob)
    )
    lines = [name, "", _docstring(knob), "", f"Numbers: {knob.semantics.value}", f"Values: {_listed(knob)}"]
    lines += ["", "To adopt:", snippets, "", f"To try: advisor tune train.py --knob {name}"]
    return "\n".join(lines) + "\n"


def _entry(name: str, knob: AnyKnob) -> str:
    lines = [f"{name} ({knob.semantics.value}): {_listed(knob)}", f"    {_first_line(knob)}"]
    return "".join(
        textwrap.shorten(line, width(), placeholder=" ...") + "\n"
        if not line.startswith(" ")
        else f"    {textwrap.shorten(line, width() - 4, placeholder=' ...')}\n"
        for line in lines
    )


def _facts(name: str, knob: AnyKnob) -> dict[str, Any]:
    legal = knob.values()
    spelt: Any = {"low": legal.start, "high": legal.stop - 1} if isinstance(legal, range) else list(legal)
    return {
        "id": name, "semantics": knob.semantics.value, "live": knob.live, "named_only": knob.named_only,
        "values": spelt, "page": _docstring(knob),
    }  # fmt: skip


def _listed(knob: AnyKnob) -> str:
    legal = knob.values()
    if isinstance(legal, range):
        return f"{legal.start} to {legal.stop - 1}"
    return ", ".join(str(value) for value in legal)


def _examples(knob: AnyKnob) -> list[Value]:
    legal = knob.values()
    return [value for value in (2, 4) if value in legal] if isinstance(legal, range) else list(legal)


def _docstring(knob: AnyKnob) -> str:
    return inspect.getdoc(type(knob)) or ""


def _first_line(knob: AnyKnob) -> str:
    return _docstring(knob).partition("\n")[0]
