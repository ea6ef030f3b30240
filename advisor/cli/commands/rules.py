"""``advisor rules``: what is looked for."""

import inspect
import json
import re
import textwrap
from typing import Any

import click

from advisor.advice.rule import Family, Rule
from advisor.base.errors import UsageError, clean
from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, TEXT_OR_JSON
from advisor.cli.options import Command, problems_of
from advisor.cli.output import width, write
from advisor.cli.values import did_you_mean
from advisor.rules import RULES
from advisor.tuners.strategies import STRATEGIES

HELP = """List the rules, or show the page of one.

\b
Examples:
  advisor rules
  advisor rules input_bound
"""


def complete_rule(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Rules that begin like that."""
    return [name for name in RULES if name.startswith(incomplete)]


@click.command(
    "rules", cls=Command, from_files=(), help=HELP, epilog=EXIT_CODES, short_help="List what is looked for."
)
@click.argument("rule", required=False, type=click.UNPROCESSED, shell_complete=complete_rule)
@TEXT_OR_JSON
@NO_COLOR
@DEBUG
@click.pass_context
def command(ctx: click.Context, *, rule: str | None, format: str | None, no_color: bool, debug: bool) -> int:
    """Print the list or a page."""
    problems_of(ctx).raise_any()
    if rule is not None and rule not in RULES:
        hint = did_you_mean(rule, list(RULES)) or "`advisor rules` lists them"
        raise UsageError(f"unknown rule '{clean(rule)}'", hint=hint)
    if format == "json":
        facts = [_facts(RULES[name]) for name in ([rule] if rule else RULES)]
        write(json.dumps(facts[0] if rule else facts, indent=2) + "\n")
    elif rule is None:
        write(listing())
    else:
        write(page(rule))
    return 0


def listing() -> str:
    """All rules by family, a line each."""
    lines = []
    for family in Family:
        members = [one for one in RULES.values() if one.family is family]
        lines.append(family.value.capitalize())
        for one in members:
            sentence = re.split(r"\.\s", _docstring(one) + " ", maxsplit=1)[0]
            name = f"  {one.id} ({one.kind.value})"
            room = width() - len(name) - len(": ")
            cut = textwrap.shorten(sentence, room, placeholder=" ...") if room > 20 else ""
            lines.append(f"{name}: {cut}" if cut else name)
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def page(name: str) -> str:
    """Everything there is to know about a rule, as text."""
    rule = RULES[name]
    named = [f"strategy={name}" if name in STRATEGIES else name for name in rule.knobs]
    tested = ", ".join(named) or "nothing: the advice is for you to follow"
    lines = [name, "", _docstring(rule), "", f"Family: {rule.family.value}", f"Kind: {rule.kind.value}"]
    lines += [f"Fires when: {rule.threshold}", f"Tested by: {tested}"]
    if rule.explains:
        lines.append(f"Can be the cause of: {', '.join(rule.explains)}")
    return "\n".join(lines) + "\n"


def _facts(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id, "family": rule.family.value, "kind": rule.kind.value, "threshold": rule.threshold,
        "knobs": list(rule.knobs), "explains": list(rule.explains), "page": _docstring(rule),
    }  # fmt: skip


def _docstring(rule: Rule) -> str:
    return inspect.getdoc(type(rule)) or ""
