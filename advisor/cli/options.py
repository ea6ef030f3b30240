"""Options that may stand on the command line, in the environment and in a configuration file."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from advisor.cli import configuration
from advisor.cli.completion import completer_of
from advisor.cli.failures import Face
from advisor.cli.problems import Problems
from advisor.errors import UsageError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

GROUPS = ("What to run", "Limits", "What counts", "What is tried", "Output")
PROBLEMS = "advisor.problems"
SCRIPT_ARGUMENTS = "advisor.script_arguments"
TYPED = "advisor.typed"


class Setting(click.Option):
    """An option with a value, or a switch.

    click only finds the texts; they are read in ``Command.invoke``, where those of the environment and of
    files are read too, so that all that is wrong is told at once.

    Args:
        declarations: Names, as click takes them.
        read: Text to value; raises ``UsageError``. A switch has none.
        file_types: What it may be in a configuration file.
        group: Its heading in the help text.
        repeat: It may be given several times; its value is then a list.
        read_table: Reads a table of a configuration file, for options that can be one.
        default_text: What the help text says about leaving it out.
    """

    def __init__(
        self, declarations: Sequence[str], *, read: Callable[[str], Any] | None = None,
        file_types: tuple[type, ...] = (str,), group: str = "Output", repeat: bool = False,
        read_table: Callable[[Mapping[str, Any], Problems, str], list[Any]] | None = None,
        default_text: str | None = None, **attributes: Any,
    ) -> None:  # fmt: skip
        if read is None:
            attributes["is_flag"] = True
        else:
            attributes |= {"multiple": True, "type": click.UNPROCESSED, "show_default": default_text or False}
        attributes.setdefault("shell_complete", completer_of(declarations, read))
        super().__init__(declarations, **attributes)
        self.read = read
        self.file_types = (bool,) if read is None else file_types
        self.group = group
        self.repeat = repeat
        self.read_table = read_table

    @property
    def flag(self) -> str:
        """Its name as messages call it: the long one."""
        return max(self.opts, key=len)


def setting(*declarations: str, **attributes: Any) -> Decorator:
    """Declare a ``Setting`` of a command."""
    return click.option(*declarations, cls=Setting, **attributes)


class Command(click.Command):
    """A command whose settings have several sources, and whose target may have arguments of its own.

    Args:
        from_files: The settings that are taken from files and the environment too; all by default.
    """

    def __init__(self, *arguments: Any, from_files: tuple[str, ...] | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.from_files = from_files

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put what follows ``--`` aside, then parse the rest; more than one argument is refused."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[SCRIPT_ARGUMENTS] = tuple(args[at + 1 :])
        ctx.meta[TYPED] = tuple(args[:at])
        ctx.allow_extra_args = True
        super().parse_args(ctx, args[:at])
        if ctx.args and not ctx.resilient_parsing:
            raise UsageError(
                f"got an unexpected extra argument ({ctx.args[0]})",
                hint="arguments of the script go after `--`",
            )
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        """Read all settings, then run; problems are kept for the command to raise with its own."""
        problems: Problems = ctx.meta.setdefault(PROBLEMS, Problems())
        known = {param.name: param for param in self.params if isinstance(param, Setting) and param.name}
        wanted = known if self.from_files is None else {name: known[name] for name in self.from_files}
        tolerant = self.from_files is not None
        given = configuration.gather(wanted, problems, tolerant=tolerant) if wanted else {}
        for name, param in known.items():
            texts = ctx.params[name]
            if param.read is None:
                ctx.params[name] = bool(texts) or bool(given.get(name, False))
            else:
                typed = _typed(param, texts, problems)
                ctx.params[name] = given.get(name, [] if param.repeat else None) if not texts else typed
        face = ctx.find_object(Face)
        if face is not None:
            face.json = face.json or ctx.params.get("format") == "json"
            face.no_color = face.no_color or bool(ctx.params.get("no_color"))
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under the headings of their groups."""
        for group in GROUPS:
            rows = [
                record
                for param in self.get_params(ctx)
                if isinstance(param, click.Option)
                and (param.group if isinstance(param, Setting) else "Output") == group
                and (record := param.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)


def problems_of(ctx: click.Context) -> Problems:
    """What was found wrong so far."""
    found: Problems = ctx.meta[PROBLEMS]
    return found


def _typed(param: Setting, texts: Sequence[str], problems: Problems) -> Any:
    """The values typed after an option, read; different values of a single one are refused."""
    assert param.read is not None
    values = []
    for content in texts:
        with problems.gather(where=param.flag):
            values.append(param.read(content))
    if param.repeat:
        return values
    if any(value != values[0] for value in values):
        with problems.gather(where=param.flag):
            raise UsageError(f"{param.flag} given twice: {', '.join(texts)}")
    return values[0] if values else None


def typed_here(name: str) -> bool:
    """Whether an option stands on the command line of the command that runs now."""
    words: tuple[str, ...] = click.get_current_context().meta[TYPED]
    return any(word == name or word.startswith(f"{name}=") for word in words)
