"""Options that may stand on the command line, in the environment and in a configuration file."""

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from advisor.base.errors import UsageError
from advisor.cli.completion import completer_of
from advisor.cli.configuration import Form, SettingsFile, read_settings
from advisor.cli.failures import Face
from advisor.cli.output import warn
from advisor.cli.problems import Problems
from advisor.cli.values import Reader

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PREFIX = "ADVISOR"
GROUPS = ("What to run", "Limits", "What counts", "What is tried", "Output")
PROBLEMS = "advisor.problems"
SCRIPT_ARGUMENTS = "advisor.script_arguments"
SETTINGS_FILE = "advisor.settings_file"
TYPED = "advisor.typed"


class Setting(click.Option):
    """An option with a value, or a switch; click finds its source, and what is wrong is told all at once.

    Args:
        declarations: Names, as click takes them.
        read: Text to value; raises ``UsageError``. With neither this nor ``type`` it is a switch.
        form: What it may be in a configuration file; ``true`` or ``false`` for a switch.
        group: Its heading in the help text.
        repeat: It may be given several times; its value is then a list.
        default_text: What the help text says about leaving it out.
    """

    def __init__(
        self, declarations: Sequence[str], *, read: Callable[[str], Any] | None = None,
        form: Form | None = None, group: str = "Output", repeat: bool = False,
        default_text: str | None = None, **attributes: Any,
    ) -> None:  # fmt: skip
        if read is not None:
            attributes["type"] = Reader(read)
        is_switch = "type" not in attributes
        if is_switch:
            attributes["is_flag"] = True
        else:  # several, so that two different ones can be refused
            attributes |= {"multiple": True, "show_default": default_text or False}
        attributes.setdefault("shell_complete", completer_of(declarations))
        super().__init__(declarations, **attributes)
        self.form = Form((bool,)) if is_switch else form or Form()
        self.group = group
        self.repeat = repeat

    @property
    def flag(self) -> str:
        """Its name as messages call it: the long one."""
        return max(self.opts, key=len)

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"{PREFIX}_{str(self.name).upper()}"

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """What a variable says; several values are words, and only where an option may be repeated."""
        text = self.resolve_envvar_value(ctx)
        if text is None or self.is_flag:
            return text
        return text.split() if self.repeat else [text]

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Read all texts; errors wait in ``problems_of`` for the command to raise them with its own."""
        problems, place = problems_of(ctx), self._place(ctx)
        if self.is_flag:
            with problems.gather(**place):
                return self.type.convert(value, self, ctx)
            return False
        values = []
        for text in value:
            with problems.gather(**place):
                values.append(self.type.convert(text, self, ctx))
        if not self.repeat and any(other != values[0] for other in values):
            with problems.gather(**place):
                raise UsageError(f"{self.flag} given twice: {', '.join(value)}")
        return values

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """The value, a list of an option that may be repeated; ``None`` where it is not given."""
        values = super().process_value(ctx, value)
        if self.is_flag:
            return values
        return list(values) if self.repeat else next(iter(values), None)

    def _place(self, ctx: click.Context) -> dict[str, str]:
        """What is put before a message about the value, or where the value stands."""
        match ctx.get_parameter_source(str(self.name)):
            case ParameterSource.ENVIRONMENT:
                return {"prefix": f"{self.variable}: "}
            case ParameterSource.DEFAULT_MAP:
                return {"prefix": f"{self.flag.lstrip('-')}: ", "where": ctx.meta[SETTINGS_FILE].name}
        return {"where": self.flag}


def setting(*declarations: str, **attributes: Any) -> Decorator:
    """Declare a ``Setting`` of a command."""
    return click.option(*declarations, cls=Setting, **attributes)


class Command(click.Command):
    """A command whose settings have several sources, and whose target may have arguments of its own.

    Args:
        from_files: The settings that are taken from files and the environment too; all by default.
    """

    def __init__(self, *arguments: Any, from_files: tuple[str, ...] | None = None, **attributes: Any) -> None:
        attributes["context_settings"] = {"auto_envvar_prefix": PREFIX}
        super().__init__(*arguments, **attributes)
        self.tolerant = from_files is not None
        for param in settings_of(self):
            param.allow_from_autoenv = from_files is None or param.name in from_files

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put what follows ``--`` aside, then parse the rest; more than one argument is refused."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[SCRIPT_ARGUMENTS] = tuple(args[at + 1 :])
        ctx.meta[TYPED] = tuple(args[:at])
        ctx.allow_extra_args = True
        forms = {str(param.name): param.form for param in settings_of(self) if param.allow_from_autoenv}
        file = SettingsFile()
        if forms:
            file = read_settings(forms, problems_of(ctx), tolerant=self.tolerant)
        ctx.meta[SETTINGS_FILE], ctx.default_map = file, file.written
        super().parse_args(ctx, args[:at])
        if ctx.args and not ctx.resilient_parsing:
            raise UsageError(
                f"got an unexpected extra argument ({ctx.args[0]})",
                hint="arguments of the script go after `--`",
            )
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        """Warn of what is odd about the files, then run."""
        for text, hint in ctx.meta[SETTINGS_FILE].warnings:
            warn(text, hint=hint)
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


def settings_of(command: click.Command) -> list[Setting]:
    """The settings that a command takes."""
    return [param for param in command.params if isinstance(param, Setting)]


def problems_of(ctx: click.Context) -> Problems:
    """What was found wrong so far."""
    found: Problems = ctx.meta.setdefault(PROBLEMS, Problems())
    return found


def typed_here(ctx: click.Context, name: str) -> bool:
    """Whether a setting stands on the command line."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
