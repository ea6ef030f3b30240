"""The command line: parse, call one function, print. Commands are imported when they are used."""

import importlib
import signal
import sys
from collections.abc import Sequence

import click

from advisor.base.errors import AdvisorError, UsageError
from advisor.cli.failures import Face, from_bug, from_click, report_failure
from advisor.cli.output import prepare_streams, tell

# What `--help` says of each, so that it need not import them all.
SHORT_HELP = {
    "tune": "Find out what to change, and prove it.",
    "profile": "Find out what is slow, where, and how much it could give.",
    "report": "Show a result again.",
    "apply": "Show, write, verify or take back the patch of a recommendation.",
    "check": "Fail when a step got slower, or memory grew, beyond noise.",
    "compare": "Put two results, or two traces, side by side.",
    "plan": "Predict what other numbers of ranks would give.",
    "studies": "List what is stored.",
    "knobs": "List what can be tried.",
    "rules": "List what is looked for.",
    "doctor": "Check machine and environment.",
    "init": "Write a workload file.",
}
AVAILABLE = tuple(SHORT_HELP)
LATER = ("trace",)

EXIT_CODES = """\b
Exit codes:
  0  done, also when the answer is to keep what there is
  1  the gate of `advisor check` failed, or what `advisor apply --verify` looked for
  2  usage or configuration
  3  the target itself fails, unchanged
  4  no trial was valid
  5  storage or environment
  70  internal
  130, 143  interrupted; what was measured is kept
"""


class Commands(click.Group):
    """Finds a command by its file in ``commands/``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they are used."""
        return list(AVAILABLE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their sentences, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SHORT_HELP.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name in LATER:
            return _not_yet(cmd_name)
        if cmd_name not in AVAILABLE:
            return None
        command: click.Command = importlib.import_module(f"advisor.cli.commands.{cmd_name}").command
        return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the only place where errors end.

    Args:
        arguments: What was typed behind ``advisor``; by default that of this process.

    Returns:
        The exit code.
    """
    typed = list(sys.argv[1:] if arguments is None else arguments)
    face = Face.of(typed)
    prepare_streams()
    try:
        returned = _commands().main(typed, prog_name="advisor", standalone_mode=False, obj=face)
    except AdvisorError as error:
        return report_failure(error, face)
    except click.ClickException as error:
        return report_failure(from_click(error, typed, AVAILABLE), face)
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted")
        return 128 + signal.SIGINT
    except Exception as error:  # whatever it is, the user reads a sentence and the log holds the rest
        return report_failure(from_bug(error), face)
    return returned if isinstance(returned, int) else 0


def _commands() -> click.Group:
    def print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            from importlib.metadata import version

            click.echo(f"advisor {version('torch-advisor')}")
            ctx.exit()

    return Commands(
        "advisor",
        help="Profiles a PyTorch training run, tries changes on it, and proves which ones help.",
        epilog=f"{EXIT_CODES}\nNot available yet: {', '.join(LATER)}.",
        callback=_nothing_asked,
        invoke_without_command=True,
        params=[
            click.Option(
                ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=print_version,
                help="Show the version and exit.",
            )
        ],
    )  # fmt: skip


@click.pass_context
def _nothing_asked(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        raise UsageError("Missing command.", hint="`advisor tune train.py`, or `advisor --help`")


def _not_yet(name: str) -> click.Command:
    """A command of the contract that comes later."""

    def refuse() -> None:
        raise UsageError(f"`advisor {name}` is not available yet", hint="`advisor --help` lists what is")

    return click.Command(
        name,
        callback=refuse,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
