"""Options that mean the same wherever they stand; a command puts them on as decorators."""

from collections.abc import Callable
from pathlib import Path

from advisor.base.durations import parse_duration, parse_latency
from advisor.base.errors import UsageError
from advisor.base.settings import MAX_TRIALS
from advisor.cli import values
from advisor.cli.configuration import Form
from advisor.cli.options import Decorator, setting
from advisor.tuners.benches.engines import NAMES as ENGINES

DEFAULT_OUT = "advisor-report"

MODULE = setting(
    "-m",
    "module",
    type=str,
    metavar="MODULE",
    group="What to run",
    help="Run a module in place of a file.",
)
LAUNCHER = setting("--exec", "launcher", group="What to run", help="What follows -- is a launcher's command.")
DEVICE = setting(
    "--device",
    read=values.device,
    metavar="DEVICE",
    group="What to run",
    default_text="auto",
    help="auto, cpu, cuda or cuda:N.",
)
RANKS = setting(
    "--ranks",
    read=values.ranks,
    metavar="N,...",
    form=Form((int, str)),
    group="What to run",
    help="Numbers of workers that strategies are tried with.",
)
CONFIDENCE = setting(
    "--confidence",
    read=values.confidence,
    metavar="SHARE",
    form=Form((float, str)),
    group="What counts",
    default_text="0.99",
    help="Of all intervals.",
)
STORED = setting("--storage", type=str, metavar="URL", group="What to run", help="Where studies are stored.")
DRY_RUN = setting("--dry-run", group="Output", help="Say what would be done; starts and writes nothing.")
ON = setting(
    "--on",
    type=values.Choice(("here", *ENGINES)),
    metavar="ENGINE",
    group="What to run",
    default_text="here",
    help="Where further nodes come from: ray or slurm.",
)
QUIET = setting("--quiet", group="Output", help="No progress.")
NO_COLOR = setting("--no-color", group="Output", help="No colour.")
ALLOW_WRITES = setting(
    "--allow-writes",
    group="What to run",
    help="Let launches change files that exist where the system cannot keep writes apart.",
)
ALL = setting("--all", group="Output", help="List the rules that passed or do not apply, too.")
DEBUG = setting("--debug", group="Output", help="Show tracebacks of errors.")


def formats(*names: str) -> Decorator:
    """``--format`` with the forms that a command has; the first is the default."""
    listed = f"{', '.join(names[:-1])} or {names[-1]}, on stdout."
    return setting(
        "--format",
        type=values.Choice(names),
        metavar="NAME",
        group="Output",
        default_text=names[0],
        help=listed,
    )


FORMAT = formats("text", "json", "md")
TEXT_OR_JSON = formats("text", "json")


def seed(help: str = "") -> Decorator:
    """``--seed``."""
    return setting(
        "--seed",
        read=values.seed,
        metavar="N",
        form=Form((int,)),
        group="What to run",
        default_text="0",
        help=help,
    )


def folder(help: str) -> Decorator:
    """``--out``."""
    default = f"{DEFAULT_OUT}/"
    return setting("--out", type=str, metavar="DIR", group="Output", default_text=default, help=help)


SEED = seed()
OUT = folder("Folder of the report; empty, new, or an earlier report.")


def budget(default: str, help: str) -> Decorator:
    """``--budget``; ``default`` is what the help text says, the command holds the number."""
    return setting(
        "--budget", read=parse_duration, metavar="TIME", group="Limits", default_text=default, help=help
    )


def whole_number(name: str, help: str, *, least: int = 1, default: str | None = None) -> Decorator:
    """A limit that is counted."""
    return setting(
        name,
        type=values.Count(least),
        metavar="N",
        form=Form((int,)),
        group="Limits",
        default_text=default,
        help=help,
    )


def trials(help: str) -> Decorator:
    """``--trials``."""
    count = values.Count(1, MAX_TRIALS, hint="bound the time: `--budget 10m`")
    return setting("--trials", type=count, metavar="N", form=Form((int,)), group="Limits", help=help)


def objective(help: str) -> Decorator:
    """``--objective``."""
    return setting(
        "--objective",
        type=values.Choice(("goodput", "throughput", "memory", "latency", "requests"), later=("energy",)),
        metavar="NAME",
        group="What counts",
        default_text="goodput",
        help=help,
    )


def max_loss(help: str) -> Decorator:
    """``--max-loss``."""
    return _share("--max-loss", values.max_loss, "1%", help)


def latency_limit(help: str) -> Decorator:
    """``--latency-limit``."""
    return setting(
        "--latency-limit",
        read=parse_latency,
        metavar="TIME",
        group="What counts",
        default_text="none",
        help=help,
    )


def min_gain(help: str) -> Decorator:
    """``--min-gain``."""
    return _share("--min-gain", values.min_gain, "2%", help)


def _share(name: str, read: Callable[[str], float], default: str, help: str) -> Decorator:
    return setting(
        name, read=read, metavar="SHARE", form=Form((float, int, str)), group="What counts",
        default_text=default, help=help,
    )  # fmt: skip


def report_folder(out: str | None) -> Path:
    """The folder of ``--out``.

    Raises:
        UsageError: It is empty, a file, or holds something that is not ours.
        EnvironmentProblem: It cannot be written to.
    """
    from advisor.report.folder import check_folder

    text = DEFAULT_OUT if out is None else out
    if not text.strip() or "\0" in text:
        raise UsageError("--out is empty", hint=f"leave it out for {DEFAULT_OUT}/")
    check_folder(Path(text))
    return Path(text)
